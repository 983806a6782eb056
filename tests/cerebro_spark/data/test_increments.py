from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from photographs import encode, photograph
from pyspark.sql import functions as F

from cerebro_spark.data import prepare, prepare_increment
from cerebro_spark.errors import ColumnError, EmptyInputError, InvalidArgumentError
from udfs.shards import SPLITS, GrowingData, Ledger, load_shard, place_of
from udfs.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession

    Watch = Callable[[], AbstractContextManager[None]]

SCHEMA = "id string, x double, tags array<bigint>, odd int, w double"
SETTINGS = {
    "name": "growing",
    "id_column": "id",
    "feature_columns": ["x", "tags"],
    "label_columns": ["odd"],
    "weight_column": "w",
    "num_shards": 2,
    "seed": 5,
}
add = partial(prepare_increment, **SETTINGS)


def row(number: int, **others: Any) -> dict[str, Any]:
    return {"id": f"r{number}", "x": number / 7, "tags": [number, 1], "odd": number % 2, "w": 1.0} | others


FIRST = [row(number) for number in range(40)]


def frame(spark: SparkSession, rows: Iterable[dict[str, Any]]) -> DataFrame:
    names = [column.split(" ")[0] for column in SCHEMA.split(", ")]
    return spark.createDataFrame([tuple(one[name] for name in names) for one in rows], SCHEMA)


@pytest.fixture(scope="module")
def first(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> GrowingData:
    """For tests that add nothing."""
    return add(frame(spark, FIRST), Store.from_uri(str(tmp_path_factory.mktemp("first"))))


def content(data: GrowingData) -> dict[str, tuple[float, tuple[int, ...], int, float]]:
    """All records, after checking that each lies where its id says."""
    found = {}
    for split in SPLITS:
        for partition in range(data.num_shards):
            shard = load_shard(data, split, partition)
            ids = Ledger(data.increments, split, partition).ids()
            facts = zip(ids, shard.inputs[0][:, 0], shard.inputs[1], shard.labels[0], shard.weights, strict=True)
            for record, x, tags, odd, weight in facts:
                where = place_of(record, seed=5, num_shards=data.num_shards, test_fraction=data.test_fraction)
                assert where == (split, partition)
                assert record not in found
                found[record] = (np.float32(x), tuple(tags.tolist()), int(odd), float(weight))
    return found


def truth(rows: Iterable[dict[str, Any]]) -> dict[str, tuple[float, tuple[int, ...], int, float]]:
    return {one["id"]: (np.float32(one["x"]), tuple(one["tags"]), one["odd"], one["w"]) for one in rows if one["w"]}


@pytest.mark.connect_slow
def test_batch_by_batch(spark: SparkSession, store: Store) -> None:
    data = add(frame(spark, FIRST), store)
    assert content(data) == truth(FIRST)
    # Corrected twice over, of a new weight, changed, out, as it was, and new ones; whatever the partitions of Spark.
    second = [row(0, odd=9), row(1, w=0.5), row(2, x=-1.0), row(3, w=0.0), row(4), *(row(n) for n in range(40, 50))]
    data = add(frame(spark, second).repartition(5), store, previous=data)
    known = {one["id"]: one for one in [*FIRST, *second]}
    assert content(data) == truth(known.values())
    assert [increment.rows for increment in data.increments] == [40, 11]
    assert sum(one.out for one in data.increments[1].changes) == 2
    assert sum(one.corrected for one in data.increments[1].changes) == 2
    loaded = GrowingData.load(store, "growing")
    assert loaded == data
    assert content(loaded) == content(data)
    # A driver that was lost in between gives the batch again.
    assert add(frame(spark, second), store, previous=loaded) == loaded
    assert not store.exists("prepared", "growing", "0002")
    third = [row(3), row(0, odd=8)]
    data = add(frame(spark, third), store, previous=data)
    assert content(data) == truth((known | {one["id"]: one for one in third}).values())


def test_the_same_whatever_the_partitioning(spark: SparkSession, store: Store) -> None:
    rows = frame(spark, FIRST)
    data = [
        add(source, store, name=f"n{n}")
        for n, source in enumerate([rows, rows.repartition(7), rows.orderBy(F.desc("x"))])
    ]
    assert len({one.fingerprint for one in data}) == 1


def test_whole_numbers_and_their_decimals_are_the_same_ids(spark: SparkSession, store: Store) -> None:
    rows = frame(spark, FIRST).withColumn("id", F.substring("id", 2, 9).cast("int"))
    data = add(rows, store)
    again = add(rows.withColumn("id", F.col("id").cast("string")), store, previous=data)
    assert again == data


def test_rows_that_are_left_out_change_nothing(spark: SparkSession, store: Store) -> None:
    data = add(frame(spark, [*FIRST, row(90, x=None)]), store)
    assert data.dropped == {"null in 'x'": 1}
    grown = add(frame(spark, [row(0, tags=None), row(1, odd=4), row(91, w=0.0)]), store, previous=data)
    assert content(grown) == content(data) | truth([row(1, odd=4)])
    assert grown.dropped == {"null in 'x'": 1, "null in 'tags'": 1}
    assert grown.zero_weights == 1
    with pytest.raises(ColumnError, match="null in 'tags'"):
        add(frame(spark, [row(0, tags=None)]), store, previous=grown, errors="raise")
    assert GrowingData.load(store, "growing") == grown


def test_images(spark: SparkSession, store: Store) -> None:
    pixels = photograph("china")
    side = 8
    pictures = [encode(pixels.crop((n, n, n + 40, n + 40)), "PNG") for n in range(24)]
    one = partial(
        prepare_increment,
        store=store,
        name="photos",
        id_column="id",
        feature_columns=["image"],
        label_columns=["y"],
        num_shards=2,
        image_size=side,
    )
    schema = "id int, image binary, y int"
    data = one(spark.createDataFrame([(n, bytearray(pictures[n]), n) for n in range(20)], schema))
    rows = [(0, bytearray(pictures[20]), 0), (1, bytearray(b"no image"), 1), (2, bytearray(pictures[2]), 7)]
    grown = one(spark.createDataFrame(rows, schema), previous=data)
    # A new picture is a new row; one that cannot be decoded leaves the old one; an equal one keeps its row.
    assert grown.increments[1].rows == 1
    assert [(change.out, change.corrected) for change in grown.increments[1].changes if change.corrected] != []
    assert sum(grown.increments[1].data.dropped.values()) == 1
    assert grown.rows("train") + grown.rows("validation") == 20
    split, partition = grown.place("1")
    kept = Ledger(grown.increments, split, partition).ids()
    assert "1" in kept


@pytest.mark.parametrize(
    ("batch", "error", "message"),
    [
        ([row(1), row(2), row(2, x=0.5)], ColumnError, r"twice in one batch: 'r2'"),
        ([row(1, id=None)], ColumnError, "null in the id column: 1 row"),
        ([], EmptyInputError, "has no rows"),
        ([row(1, x=None)], EmptyInputError, "the DataFrame must have complete rows"),
        ([row(1, tags=[1, 2, 3])], ColumnError, r"'tags' has tensors of int64\[3\], and of int64\[2\] in the first"),
        ([row(1, w=-1.0)], ColumnError, "weight column 'w'"),
    ],
)
def test_bad_batches_change_nothing(
    spark: SparkSession, first: GrowingData, batch: list[dict[str, Any]], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        add(frame(spark, batch), first.store, previous=first)
    assert GrowingData.load(first.store, "growing") == first
    assert first.store.list("prepared", "growing") == ["0000", "_prepared.json"]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"num_shards": 3}, InvalidArgumentError, "num_shards=2"),
        ({"seed": 6}, InvalidArgumentError, "seed=5"),
        ({"test_fraction": 0.5}, InvalidArgumentError, "change places"),
        ({"store": Store("file:///elsewhere")}, InvalidArgumentError, "previous is in file:"),
        ({"id_column": "x"}, ColumnError, "the id 'x' is double"),
        ({"id_column": "idd"}, ColumnError, "did you mean 'id'"),
        ({"errors": "fix"}, InvalidArgumentError, "errors must be"),
    ],
)
def test_bad_arguments_start_no_job(
    spark: SparkSession,
    first: GrowingData,
    no_job: Watch,
    change: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    rows = frame(spark, [row(1)])
    with no_job(), pytest.raises(error, match=message):
        add(rows, **({"store": first.store, "previous": first} | change))


def test_other_columns_than_the_first_batch_had(spark: SparkSession, first: GrowingData) -> None:
    rows = frame(spark, [row(1)])
    with pytest.raises(ColumnError, match=r"the batch has the inputs .*, and the first one had .*tags"):
        add(rows, first.store, previous=first, feature_columns=["x"])
    with pytest.raises(ColumnError, match=r"'odd' has tensors of float32\[\], and of int64\[\]"):
        add(rows.withColumn("odd", F.col("odd").cast("double")), first.store, previous=first)


def test_a_state_of_a_name_of_its_own(spark: SparkSession, store: Store) -> None:
    """As the cycles of a campaign: a run finds its rows by name, whatever came later."""
    batches = [frame(spark, FIRST), frame(spark, [row(0, odd=5), row(70)]), frame(spark, [row(0, odd=6)])]
    states = []
    for number, batch in enumerate(batches):
        states.append(add(batch, store, name=f"cycle-{number}", previous=states[-1] if states else None))
    wanted = [content(state) for state in states]
    for number, state in enumerate(states):
        assert GrowingData.load(store, f"cycle-{number}") == state
        assert content(state) == wanted[number]
    assert [one["r0"][2] for one in wanted] == [0, 5, 6]
    # A driver that was lost after the batch was added, and does not know of it.
    assert add(batches[0], store, name="cycle-0") == states[0]
    assert add(batches[1], store, name="cycle-1", previous=states[0]) == states[1]
    with pytest.raises(InvalidArgumentError, match="holds another batch already"):
        add(batches[2], store, name="cycle-1", previous=states[0])
    with pytest.raises(InvalidArgumentError, match="holds other data"):
        add(batches[1], store, name="cycle-0", previous=states[1])
    store.delete("prepared", "cycle-2")
    with pytest.raises(InvalidArgumentError, match="does not hold any more"):
        add(batches[0], store, name="cycle-3", previous=states[2])
    assert [content(state) for state in states[:2]] == wanted[:2]


def test_a_previous_that_is_not_the_latest(spark: SparkSession, store: Store) -> None:
    data = add(frame(spark, FIRST), store)
    later = add(frame(spark, [row(70)]), store, previous=data)
    with pytest.raises(InvalidArgumentError, match="holds another batch already"):
        add(frame(spark, [row(71)]), store, previous=data)
    assert content(GrowingData.load(store, "growing")) == content(later)


def test_a_first_batch_that_is_too_small(spark: SparkSession, store: Store) -> None:
    rows = frame(spark, FIRST)
    with pytest.raises(
        EmptyInputError, match=r"training shard \d+ gets none of the 40 complete rows .*lower num_shards"
    ):
        add(rows, store, num_shards=60)
    held = [one for one in FIRST if place_of(one["id"], seed=5, num_shards=1, test_fraction=0.25)[0] == "train"]
    with pytest.raises(EmptyInputError, match="holds out none of the"):
        add(frame(spark, held), store, num_shards=1)
    assert add(frame(spark, held), store, num_shards=1, test_fraction=0.0).rows("validation") == 0


def test_growing_data_are_not_prepared_over(spark: SparkSession, first: GrowingData) -> None:
    rows = frame(spark, FIRST)
    with pytest.raises(InvalidArgumentError, match="prepared from other rows"):
        prepare(rows, first.store, name="growing", feature_columns=["x"], label_columns=["odd"], num_shards=2)
    assert GrowingData.load(first.store, "growing") == first
