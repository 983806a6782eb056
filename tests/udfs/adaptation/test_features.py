from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import numpy as np
import pytest
import torch
from batches import Record, add_batch
from hypothesis import given
from hypothesis import strategies as st
from trunks import OpenedTrunk, open_trunk

from optimizer.errors import InvalidArgumentError
from udfs.adaptation import (
    DamagedFeatureError,
    FeatureError,
    FeatureReader,
    FeatureStore,
    MissingFeatureError,
    Segment,
    Stacked,
    Trunk,
    batches,
    compute,
    from_bfloat16,
    segments_of,
    to_bfloat16,
)
from udfs.node import CACHE_VARIABLE
from udfs.shards import SPLITS, GrowingData, PreparedData, load_shard
from udfs.store import StoreError
from udfs.training import TrainerError

if TYPE_CHECKING:
    from udfs.store import Store

SIZE = 4
FIRST = {f"s{number}": Record(number, number % 3) for number in range(30)}
SECOND = {"s1": Record(1, 7), "s2": Record(80, 1), "s3": Record(3, 1, 0.0)} | {
    f"t{n}": Record(40 + n, 1) for n in range(9)
}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))


@pytest.fixture
def data(store: Store) -> GrowingData:
    return add_batch(store, "data", SECOND, add_batch(store, "data", FIRST))


@pytest.fixture
def features(store: Store) -> FeatureStore:
    return FeatureStore(store, "campaign", made_with="torch")


@pytest.fixture
def model() -> OpenedTrunk:
    return open_trunk({})


def fill(features: FeatureStore, data: GrowingData, model: OpenedTrunk, *places: int) -> None:
    wants = [model.expressions()[place] for place in places]
    for segment in segments_of(data):
        compute(features, data, segment, wants, [model], batch_size=SIZE)


def recomputed(model: OpenedTrunk, data: PreparedData, split: str, partition: int, place: int) -> np.ndarray:
    """A layer's output for the rows of a shard, computed in the same batches."""
    x, top = model.expressions()[0], model.expressions()[place]
    trunk = Trunk([model], [x], [top])
    found = []
    for part, own in zip(data.parts(data.shard(split, partition)), increments_of(data, split, partition), strict=True):
        rows = load_shard(own, split, partition).inputs[0]
        block = np.concatenate([trunk({x: rows[start : start + SIZE]})[top] for start in range(0, len(rows), SIZE)])
        found.append(block if part.keep is None else block[part.keep])
    return np.concatenate(found)


def increments_of(data: PreparedData, split: str, partition: int) -> list[PreparedData]:
    if not isinstance(data, GrowingData):
        return [data]
    return [one.data for one in data.increments if one.shard(split, partition) is not None]


# --- what is stored and read


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("partition", [0, 1])
def test_stored_is_what_is_computed_bit_for_bit(
    features: FeatureStore, data: GrowingData, model: OpenedTrunk, split: str, partition: int
) -> None:
    fill(features, data, model, 2, 6)
    truth = load_shard(data, split, partition)
    keys = [model.expressions()[place] for place in (0, 2, 6)]
    rows = FeatureReader(features, data, batch_size=SIZE).rows(split, partition, keys, [model])
    assert rows.rows == truth.rows
    np.testing.assert_array_equal(rows.inputs[0], truth.inputs[0])
    np.testing.assert_array_equal(rows.inputs[1], recomputed(model, data, split, partition, 2))
    np.testing.assert_array_equal(rows.inputs[2], recomputed(model, data, split, partition, 6))
    np.testing.assert_array_equal(rows.labels[0], truth.labels[0])
    np.testing.assert_array_equal(rows.weights, truth.weights)
    # At another batch size the values may differ by rounding.
    whole = model.model[:6](torch.from_numpy(truth.inputs[0])).detach().numpy()
    np.testing.assert_allclose(rows.inputs[2], whole, atol=1e-5)


@pytest.mark.parametrize("size", [1, 5, 64])
def test_batches_are_read_in_the_order_that_is_asked_for(
    features: FeatureStore, data: GrowingData, model: OpenedTrunk, size: int
) -> None:
    fill(features, data, model, 2)
    keys = [model.expressions()[place] for place in (2, 0)]
    rows = FeatureReader(features, data, batch_size=SIZE).rows("train", 0, keys, [model])
    order = np.random.default_rng(1).permutation(rows.rows)
    read = list(batches(rows, order, size))
    assert [batch.rows for batch in read] == [len(order[start : start + size]) for start in range(0, len(order), size)]
    for start, batch in zip(range(0, len(order), size), read, strict=True):
        picked = order[start : start + size]
        assert list(batch.inputs) == keys
        for key, array in zip(keys, rows.inputs, strict=True):
            np.testing.assert_array_equal(batch.inputs[key], np.asarray(array)[picked])
        np.testing.assert_array_equal(batch.labels[0], rows.labels[0][picked])
        np.testing.assert_array_equal(batch.weights.own, rows.weights[picked])


def test_a_batch_is_read_ahead_and_its_error_is_raised_where_it_is_used(
    features: FeatureStore, data: GrowingData, model: OpenedTrunk
) -> None:
    rows = FeatureReader(features, data, batch_size=SIZE).rows("train", 0, [model.expressions()[0]], [model])
    rows.weights[5] = -1.0
    reading = batches(rows, np.arange(rows.rows), 5)
    assert next(reading).rows == 5
    with pytest.raises(TrainerError, match="weight"):
        next(reading)
    assert list(batches(rows, np.arange(0), 5)) == []


def test_rows_of_the_inputs_are_mapped_where_memory_is_short(
    features: FeatureStore, data: GrowingData, model: OpenedTrunk
) -> None:
    key = model.expressions()[0]
    held, mapped = (
        FeatureReader(features, data, batch_size=SIZE, memory_bytes=memory).rows("train", 1, [key], [model])
        for memory in (None, 0)
    )
    np.testing.assert_array_equal(np.asarray(held.inputs[0]), np.asarray(mapped.inputs[0]))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.data())
def test_stacked_arrays_are_one_array(counts: list[int], draw: st.DataObject) -> None:
    arrays = [np.random.default_rng(n).normal(size=(count, 2)) for n, count in enumerate(counts)]
    kept = [
        draw.draw(st.one_of(st.none(), st.lists(st.integers(0, count - 1), unique=True).map(sorted))) if count else None
        for count in counts
    ]
    parts = [(array, None if own is None else np.array(own, np.int64)) for array, own in zip(arrays, kept, strict=True)]
    whole = np.concatenate(
        [array if own is None else array[np.array(own, int)] for array, own in zip(arrays, kept, strict=True)]
    )
    stacked = Stacked(parts, (2,), np.float64)
    assert stacked.shape == whole.shape
    np.testing.assert_array_equal(np.asarray(stacked), whole)
    if len(whole):
        picked = draw.draw(st.lists(st.integers(-len(whole), len(whole) - 1)))
        np.testing.assert_array_equal(stacked[np.array(picked, int)], whole[np.array(picked, int)])
        start, stop = draw.draw(st.tuples(st.integers(0, 8), st.integers(0, 8)))
        np.testing.assert_array_equal(stacked[start:stop], whole[start:stop])
    with pytest.raises(IndexError):
        stacked[[len(whole)]]


# --- one pass, and what it starts from


def test_several_layers_take_one_pass_and_no_second_one(
    features: FeatureStore, data: GrowingData, model: OpenedTrunk
) -> None:
    segment = segments_of(data)[0]
    keys = model.expressions()
    done = compute(features, data, segment, [keys[6], keys[2]], [model], batch_size=SIZE)
    assert done.passed == done.segment.rows
    assert set(model.runs.values()) == {math.ceil(segment.rows / SIZE)}
    assert done.nbytes == {keys[6]: segment.rows * 4 * 4, keys[2]: segment.rows * 8 * 4}
    assert features.used_bytes() == sum(done.nbytes.values())
    model.runs.clear()
    again = compute(features, data, segment, [keys[6], keys[2]], [model], batch_size=SIZE)
    assert (again.passed, again.nbytes, model.runs) == (done.passed, {}, {})
    assert again.errors == done.errors


def test_a_new_layer_is_filled_in_from_the_nearest(
    features: FeatureStore, data: GrowingData, model: OpenedTrunk
) -> None:
    fill(features, data, model, 1, 3)
    model.runs.clear()
    segment = segments_of(data)[0]
    keys = model.expressions()
    done = compute(features, data, segment, [keys[5]], [model], batch_size=SIZE)
    assert done.passed == 0
    assert len(model.runs) == 2
    truth = recomputed(model, data.increments[0].data, segment.split, segment.partition, 5)
    np.testing.assert_array_equal(features.open(keys[5], segment)[:], truth)


def test_features_of_other_rows_weights_or_versions_are_not_taken(
    features: FeatureStore, data: GrowingData, model: OpenedTrunk
) -> None:
    fill(features, data, model, 2)
    key, segment = model.expressions()[2], segments_of(data)[0]
    assert features.has(key, segment)
    assert open_trunk({"trunk": 9}).expressions()[2] != key
    other = add_batch(features.store, "other", FIRST | {"s0": Record(99, 0)})
    assert not any(features.has(key, one) for one in segments_of(other) if one.rows == segment.rows)
    newer = FeatureStore(features.store, "campaign", made_with="torch of tomorrow")
    assert not newer.has(key, segment)
    assert newer.missing(key, segments_of(data)) == list(segments_of(data))
    assert features.missing(key, segments_of(data)) == []
    with pytest.raises(MissingFeatureError):
        newer.open(key, segment)
    newer.retain([key])
    assert newer.used_bytes() == 0


def test_useless_layers_are_deleted_and_others_stay(
    features: FeatureStore, data: GrowingData, model: OpenedTrunk
) -> None:
    fill(features, data, model, 2, 6)
    elsewhere = FeatureStore(features.store, "another", made_with="torch")
    fill(elsewhere, data, model, 2)
    two, six = model.expressions()[2], model.expressions()[6]
    features.retain([six])
    assert features.expressions() == (six,)
    assert features.missing(six, segments_of(data)) == []
    assert elsewhere.expressions() == (two,)


# --- bfloat16


def test_bfloat16_is_torchs_rounding() -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 20_000, np.uint32)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, 1e-45, 1.00390625, 1.01171875], np.float32)
    numbers = np.concatenate([bits.view(np.float32), special, -special])
    found = from_bfloat16(to_bfloat16(numbers))
    expected = torch.from_numpy(numbers).bfloat16().float().numpy()
    np.testing.assert_array_equal(found, expected)


def test_bfloat16_takes_half_the_disk_and_tells_its_error(store: Store, data: GrowingData, model: OpenedTrunk) -> None:
    exact = FeatureStore(store, "exact")
    rounded = FeatureStore(store, "rounded", storage_dtype="bfloat16")
    key, segment = model.expressions()[2], segments_of(data)[0]
    truth = compute(exact, data, segment, [key], [model], batch_size=SIZE)
    done = compute(rounded, data, segment, [key], [model], batch_size=SIZE)
    assert done.nbytes[key] * 2 == truth.nbytes[key]
    assert (truth.errors[key].absolute, truth.errors[key].relative) == (0, 0)
    first, second = exact.open(key, segment)[:], rounded.open(key, segment)[:]
    assert second.dtype == np.float32
    assert np.abs(first - second).max() == done.errors[key].absolute > 0
    assert 0 < done.errors[key].relative <= 2**-8
    assert rounded.file(key, segment).error == done.errors[key]
    assert rounded.row_bytes((8,), "float32") == 16
    assert rounded.row_bytes((8,), "int64") == 64


# --- damage


def damage(features: FeatureStore, key: str, suffix: str, at: int = 50) -> Path:
    path = min(Path(features.store.path("features", features.name, key)).rglob(f"train-00000.{suffix}"))
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("suffix", ["bin", "json"])
def test_a_flipped_byte_is_found_and_the_file_is_made_again(
    features: FeatureStore, data: GrowingData, model: OpenedTrunk, suffix: str
) -> None:
    fill(features, data, model, 2)
    key = model.expressions()[2]
    before = {path: path.read_bytes() for path in Path(features.store.path("features")).rglob("*.*")}
    path = damage(features, key, suffix)
    assert before[path] != path.read_bytes()
    reader = FeatureReader(features, data, batch_size=SIZE)
    rows = reader.rows("train", 0, [key], [model])
    assert reader.remade == 1
    np.testing.assert_array_equal(rows.inputs[0], recomputed(model, data, "train", 0, 2))
    assert {path: path.read_bytes() for path in before} == before
    reader.rows("train", 0, [key], [model])
    assert reader.remade == 1


def test_what_is_gone_is_made_again(features: FeatureStore, data: GrowingData, model: OpenedTrunk) -> None:
    fill(features, data, model, 2)
    key = model.expressions()[2]
    for path in Path(features.store.path("features", "campaign", key)).rglob("train-00000.bin"):
        path.unlink()
    reader = FeatureReader(features, data, batch_size=SIZE)
    reader.rows("train", 0, [key], [model])
    assert reader.remade == 2
    reader.forget()
    reader.rows("train", 0, [key], [model])
    assert reader.remade == 2


def test_a_damaged_layer_is_not_what_another_is_filled_in_from(
    features: FeatureStore, data: GrowingData, model: OpenedTrunk
) -> None:
    segment = next(one for one in segments_of(data) if (one.split, one.partition) == ("train", 0))
    keys = model.expressions()
    compute(features, data, segment, [keys[2]], [model], batch_size=SIZE)
    damage(features, keys[2], "bin")
    with pytest.raises(DamagedFeatureError, match="must have the bytes of its digest"):
        features.open(keys[2], segment)
    done = compute(features, data, segment, [keys[6]], [model], batch_size=SIZE)
    assert done.damaged == (keys[2],)
    assert done.passed == done.segment.rows
    own = data.increments[0].data
    for place in (2, 6):
        np.testing.assert_array_equal(features.open(keys[place], segment)[:], recomputed(model, own, "train", 0, place))


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the store's folder taken for one that cannot be mapped."""
    monkeypatch.setattr("udfs.adaptation._features.urlsplit", lambda uri: urlsplit(uri)._replace(scheme="s3"))


@pytest.mark.usefixtures("remote")
def test_files_of_a_store_that_is_no_folder_are_copied_to_the_node(
    features: FeatureStore, data: GrowingData, model: OpenedTrunk, tmp_path: Path
) -> None:
    fill(features, data, model, 2)
    key = model.expressions()[2]
    truth = recomputed(model, data, "train", 0, 2)

    def read() -> tuple[np.ndarray, int]:
        reader = FeatureReader(features, data, batch_size=SIZE)
        return np.asarray(reader.rows("train", 0, [key], [model]).inputs[0]), reader.remade

    np.testing.assert_array_equal(read()[0], truth)
    copies = sorted((tmp_path / "cache" / "features").iterdir())
    assert len(copies) == 2
    # A copy that is damaged is made again from the store, not from the rows.
    content = bytearray(copies[0].read_bytes())
    content[3] ^= 1
    copies[0].write_bytes(content)
    found, remade = read()
    np.testing.assert_array_equal(found, truth)
    assert remade == 0
    # One that is damaged in the store is made again from the rows.
    for copy in copies:
        copy.unlink()
    damage(features, key, "bin")
    found, remade = read()
    np.testing.assert_array_equal(found, truth)
    assert remade == 1


def test_nothing_is_left_of_a_pass_that_fails(
    features: FeatureStore, data: GrowingData, model: OpenedTrunk, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment = segments_of(data)[0]
    keys = model.expressions()
    passes = iter([True, False])

    def failing(have: dict[str, np.ndarray], want: list[str]) -> dict[str, np.ndarray]:
        if not next(passes):
            raise StoreError("the disk is full")
        return OpenedTrunk.trunk(model, have, want)

    monkeypatch.setattr(model, "trunk", failing)
    with pytest.raises(StoreError):
        compute(features, data, segment, [keys[2], keys[6]], [model], batch_size=SIZE)
    assert not [path for path in Path(features.store.path("features")).rglob("*") if path.is_file()]


def test_files_are_complete_or_not_there(features: FeatureStore) -> None:
    segment = Segment(0, "f00d", "train", 0, rows=3)
    with (
        pytest.raises(FeatureError, match=r"outputs must have 3 rows for Segment\(increment=0, fingerprint='f00d',"),
        features.writing(segment, {"e": ((2,), "float32")}) as files,
    ):
        files["e"].write(np.zeros((2, 2), np.float32))
    assert not features.has("e", segment)
    with (
        pytest.raises(FeatureError, match=r"a layer must return float32\[2\], as in its graph, got float64\[2\]"),
        features.writing(segment, {"e": ((2,), "float32")}) as files,
    ):
        files["e"].write(np.zeros((3, 2)))
    assert features.used_bytes() == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"storage_dtype": "bfloat"}, "did you mean 'bfloat16'"),
        ({"name": "../x"}, "letters, digits"),
        ({"bytes_per_second": 0}, "positive, finite"),
    ],
)
def test_bad_settings(store: Store, change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        FeatureStore(store, **({"name": "campaign"} | change))


def test_what_a_killed_process_left_half_is_swept(
    features: FeatureStore, data: GrowingData, model: OpenedTrunk
) -> None:
    fill(features, data, model, 2)
    before = features.used_bytes()
    whole = next(Path(features.store.path("features", "campaign")).rglob("*.bin"))
    half = whole.with_name(f".partial-{'0' * 32}-{whole.name}")
    half.write_bytes(b"x" * 100)
    features.sweep()
    assert not half.exists()
    assert features.used_bytes() == before
