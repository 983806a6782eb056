from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from batches import PIXELS, Record, add_batch, turn
from hypothesis import given, settings
from hypothesis import strategies as st

from udfs.node import CACHE_VARIABLE
from udfs.shards import (
    SPLITS,
    GrowingData,
    IncrementReport,
    IncrementWriter,
    Ledger,
    PreparedData,
    ShardError,
    TensorColumn,
    check_shard,
    load_labels,
    load_prepared,
    load_rows,
    load_shard,
    place_of,
    read_batches,
)
from udfs.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@pytest.fixture(autouse=True, scope="module")
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(tmp_path_factory.mktemp("cache")))
        yield


ids = st.sampled_from([f"r{number}" for number in range(12)])
records = st.builds(Record, st.integers(0, 3), st.integers(0, 2), st.sampled_from([0.0, 0.5, 1.0, 1.0]))
later = st.lists(st.dictionaries(ids, records, min_size=1), max_size=4)
FIRST = {f"s{number}": Record(number, 1) for number in range(16)}


def expected(batches: Sequence[Mapping[str, Record]], split: str, partition: int) -> list[tuple[str, Record]]:
    """Rows of a shard by the rule: by the batch that brought the features, then by the hash of seed and id."""
    came: dict[str, int] = {}
    known: dict[str, Record] = {}
    for number, batch in enumerate(batches):
        for record, content in batch.items():
            before = known.get(record)
            if content.weight == 0:
                known.pop(record, None)
                came.pop(record, None)
                continue
            if before is None or before.features != content.features:
                came[record] = number
            known[record] = content
    rows = sorted(known, key=lambda record: (came[record], turn(record)))
    return [(record, known[record]) for record in rows if place(record) == (split, partition)]


def place(record: str) -> tuple[str, int]:
    return place_of(record, seed=3, num_shards=2, test_fraction=0.25)


def grow(store: Store, batches: Sequence[Mapping[str, Record]]) -> GrowingData:
    data = None
    for batch in batches:
        data = add_batch(store, "data", batch, data)
    return data


def check(data: GrowingData, batches: Sequence[Mapping[str, Record]], *, memory_bytes: int | None = None) -> None:
    for split in SPLITS:
        for partition in range(2):
            truth = expected(batches, split, partition)
            found = load_shard(data, split, partition, memory_bytes=memory_bytes)
            assert Ledger(data.increments, split, partition).ids() == [record for record, _ in truth]
            assert data.shard(split, partition).rows == found.rows == len(truth)
            np.testing.assert_array_equal(
                found.inputs[0], np.array([one.pixels() for _, one in truth]).reshape(-1, PIXELS)
            )
            np.testing.assert_array_equal(
                found.labels[0], np.array([[one.label, -one.label] for _, one in truth]).reshape(-1, 2)
            )
            np.testing.assert_array_equal(found.weights, [one.weight for _, one in truth])
            alone = load_labels(data, split, partition)
            np.testing.assert_array_equal(alone.labels[0], found.labels[0])
            np.testing.assert_array_equal(alone.weights, found.weights)
            assert alone.rows == found.rows


@settings(max_examples=30)
@given(later)
def test_the_rows_are_those_of_the_union_in_the_stated_order(batches: list[dict[str, Record]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store.from_uri(folder)
        check(grow(store, [FIRST, *batches]), [FIRST, *batches])


@settings(max_examples=12)
@given(later)
def test_an_id_never_changes_its_split_or_its_shard(batches: list[dict[str, Record]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store.from_uri(folder)
        seen: dict[str, tuple[str, int]] = {}
        data = None
        for batch in [FIRST, *batches]:
            data = add_batch(store, "data", batch, data)
            for split in SPLITS:
                for partition in range(2):
                    for record in Ledger(data.increments, split, partition).ids():
                        assert seen.setdefault(record, (split, partition)) == (split, partition) == data.place(record)


def test_the_share_held_out_is_about_what_was_asked_for() -> None:
    places = [place_of(str(number), seed=0, num_shards=4, test_fraction=0.25) for number in range(4000)]
    assert sum(split == "validation" for split, _ in places) == pytest.approx(1000, rel=0.1)
    for partition in range(4):
        assert sum(own == partition for _, own in places) == pytest.approx(1000, rel=0.15)
    assert {split for split, _ in (place_of(str(n), seed=0, num_shards=2, test_fraction=0.0) for n in range(99))} == {
        "train"
    }


@pytest.fixture
def batches() -> list[dict[str, Record]]:
    """A record that changed, one that is corrected twice, one that goes out and comes back, one as it was."""
    return [
        FIRST,
        {"s0": Record(99, 1), "s1": Record(1, 5), "s2": Record(2, 1, 0.0), "s3": Record(3, 1), "new": Record(50, 4)},
        {"s0": Record(99, 7), "s1": Record(1, 6, 2.0), "s2": Record(2, 9), "s4": Record(4, 1, 0.25)},
    ]


def test_only_new_features_are_rows_of_a_batch(store: Store, batches: list[dict[str, Record]]) -> None:
    data = grow(store, batches)
    assert [increment.rows for increment in data.increments] == [16, 2, 1]
    changes = [
        (sum(one.out for one in increment.changes), sum(one.corrected for one in increment.changes))
        for increment in data.increments
    ]
    assert changes == [(0, 0), (2, 1), (0, 3)]
    assert data.rows("train") + data.rows("validation") == 17
    check(data, batches)
    first = data.increments[0].data
    assert "17" not in first.explain().replace(first.store.uri, "")  # the folder of a test has a number in its name
    text = data.explain()
    assert "taken out" in text
    assert "corrected" in text


def test_a_batch_that_brings_nothing_new_has_no_rows_and_no_changes(store: Store) -> None:
    data = add_batch(store, "data", FIRST)
    again = add_batch(store, "data", FIRST, data)
    assert again.increments[1].rows == 0
    assert again.increments[1].changes == ()


def test_it_is_loaded_as_any_prepared_data(store: Store, batches: list[dict[str, Record]]) -> None:
    data = grow(store, batches)
    data.save()
    assert isinstance(data, PreparedData)
    assert load_prepared(store, "data") == GrowingData.load(store, "data") == pickle.loads(pickle.dumps(data)) == data
    check(load_prepared(store, "data"), batches)
    data.check()
    assert data.partitions == (0, 1)
    for shard in data.shards:
        check_shard(data, shard.split, shard.partition)
    with pytest.raises(ShardError, match="must be of version 1, 2 or 4, got 3"):
        PreparedData.load(store, "data")
    with pytest.raises(ShardError, match=r"increments\[n\]\.data are"):
        data.url("train")


def test_mapped_shards_are_the_shards(store: Store, batches: list[dict[str, Record]]) -> None:
    data = grow(store, batches)
    check(data, batches, memory_bytes=0)
    assert isinstance(load_shard(data, "train", 0, memory_bytes=0).inputs[0], np.memmap)
    # A later batch is another state of the shard: the files of the one before are not taken for it.
    batches.append({"s1": Record(1, 8)})
    check(add_batch(store, "data", batches[-1], data), batches, memory_bytes=0)


@pytest.mark.parametrize("rows", [1, 3, 7, 100])
def test_the_first_rows_are_of_rows_that_count(store: Store, rows: int) -> None:
    gone = {record: content._replace(weight=0.0) for record, content in list(FIRST.items())[:8]}
    data = grow(store, [FIRST, gone, {"z": Record(60, 1), "y": Record(61, 1)}])
    found, whole = load_rows(data, "train", rows), load_shard(data, "train", 0)
    assert found.rows == min(rows, whole.rows)
    np.testing.assert_array_equal(found.inputs[0], whole.inputs[0][:rows])
    np.testing.assert_array_equal(found.labels[0], whole.labels[0][:rows])


@pytest.mark.parametrize("size", [1, 3, 100])
def test_batches_are_the_shard_in_order(store: Store, batches: list[dict[str, Record]], size: int) -> None:
    data = grow(store, batches)
    whole, parts = load_shard(data, "train", 1), list(read_batches(data, "train", 1, size))
    assert [part.rows for part in parts] == [size] * (whole.rows // size) + [whole.rows % size] * bool(
        whole.rows % size
    )
    np.testing.assert_array_equal(np.concatenate([part.inputs[0] for part in parts]), whole.inputs[0])
    np.testing.assert_array_equal(np.concatenate([part.labels[0] for part in parts]), whole.labels[0])


def test_an_id_twice_is_told(store: Store) -> None:
    writer = IncrementWriter(store, "data/0000", (TensorColumn("y", "int64"),), (), ("y",), 1)
    rows = {"bucket": [0] * 4, "id": ["a", "b", "b", "c"], "f": [1] * 4, "l": [1] * 4, "w": [False] * 4, "c0": [1] * 4}
    kinds = {"bucket": pa.int32(), "id": pa.string(), "w": pa.bool_()}
    batch = pa.record_batch({name: pa.array(values, kinds.get(name, pa.int64())) for name, values in rows.items()})
    for parts in ([batch], [batch.slice(0, 2), batch.slice(2)]):
        (report,) = writer(parts)
        assert IncrementReport.from_row(report.to_pylist()[0]).twice == ("b",)


@pytest.mark.parametrize("kind", ["records", "changes", "train"])
def test_a_flipped_byte_is_found(store: Store, batches: list[dict[str, Record]], kind: str) -> None:
    data = grow(store, batches)
    files = sorted(Path(store.path("prepared", "data")).rglob(f"000*/{kind}/*"))
    path = next(one for one in files if one.stat().st_size)
    content = bytearray(path.read_bytes())
    content[60] ^= 1  # among the first page's numbers
    path.write_bytes(content)
    places = [(split, partition) for split in SPLITS for partition in range(2)]
    with pytest.raises(ShardError, match=r"damaged.*under another name"):
        assert [(load_shard(data, *place), load_labels(data, *place)) for place in places]


def test_another_batch_is_another_fingerprint(store: Store, tmp_path: Path, batches: list[dict[str, Record]]) -> None:
    states = [grow(Store.from_uri(str(tmp_path / str(n))), batches[:n]) for n in (1, 2, 3)]
    assert len({state.fingerprint for state in states}) == 3
    other = add_batch(store, "another", batches[0])
    # What is computed from the rows of a batch is found under whatever name they are prepared.
    assert other.increments[0].data.fingerprint == states[0].increments[0].data.fingerprint
