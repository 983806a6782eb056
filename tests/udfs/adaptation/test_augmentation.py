"""Copies of training records: drawn by seed, id and copy alone, stored once, and the bits of a plain loop."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from batches import PIXELS, Record, add_batch
from hypothesis import given
from hypothesis import strategies as st
from trunks import OpenedTrunk, open_trunk

from optimizer.errors import InvalidArgumentError
from udfs.adaptation import (
    Augmentation,
    AugmentationError,
    Augmenter,
    FeatureReader,
    FeatureStore,
    PoolFeatures,
    Trunk,
    compute,
    segments_of,
)
from udfs.adaptation._identity import described
from udfs.node import CACHE_VARIABLE
from udfs.shards import GrowingData, Ledger, TensorColumn, TensorGroup, load_shard

if TYPE_CHECKING:
    from udfs.store import Store

SIZE, SEED = 4, 11
FIRST = {f"s{number}": Record(number, number % 3) for number in range(30)}
# A label that was wrong, a record that changed, one that goes out, and new ones.
SECOND = {"s1": Record(1, 7), "s2": Record(80, 1), "s3": Record(3, 1, 0.0)} | {
    f"t{n}": Record(40 + n, 1) for n in range(9)
}


def jittered(record: dict[str, Any], generator: np.random.Generator, scale: float = 0.1) -> dict[str, Any]:
    noise = generator.normal(scale=scale, size=PIXELS).astype(np.float32)
    record["pixels"] += noise
    return record


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))


@pytest.fixture
def first(store: Store) -> GrowingData:
    return add_batch(store, "data", FIRST)


@pytest.fixture
def data(store: Store, first: GrowingData) -> GrowingData:
    return add_batch(store, "data", SECOND, first)


@pytest.fixture
def features(store: Store) -> FeatureStore:
    return FeatureStore(store, "campaign", made_with="torch")


@pytest.fixture
def model() -> OpenedTrunk:
    return open_trunk({})


def augmenter(data: GrowingData, fn: Any = jittered, copies: int = 3, seed: int = SEED) -> Augmenter:
    return Augmenter.checked(Augmentation(fn, copies), data, seed)


def drawn(data: GrowingData, partition: int, copy: int) -> np.ndarray:
    """Copies of a shard's records as they count now, by a plain loop over the ids."""
    ids = Ledger(data.increments, "train", partition).ids()
    rows = load_shard(data, "train", partition).inputs[0]
    made = [
        jittered({"pixels": row.copy()}, Augmentation.generator(SEED, one, copy))["pixels"]
        for one, row in zip(ids, rows, strict=True)
    ]
    return np.array(made, np.float32)


def fill(features: FeatureStore, data: GrowingData, model: OpenedTrunk, own: Augmenter, *places: int) -> int:
    wants = [model.expressions()[place] for place in places]
    return sum(
        compute(features, data, one, wants, [model], batch_size=SIZE, augmenter=own).passed
        for one in own.segments(data)
        if any(features.missing(want, [one]) for want in wants)
    )


def test_an_epoch_reads_the_copy_of_its_number_by_id(data: GrowingData, features: FeatureStore) -> None:
    """In any order, of records that came in either batch; validation records stay as they are."""
    model, own = open_trunk({}), augmenter(data)
    reader = FeatureReader(features, data, batch_size=SIZE, augmenter=own)
    x = model.expressions()[0]
    for partition in data.partitions:
        for epoch in range(4):
            (rows,) = reader.rows("train", partition, [x], [model], epoch=epoch).inputs
            truth = drawn(data, partition, epoch % 3)
            order = np.random.default_rng(epoch).permutation(len(truth))
            np.testing.assert_array_equal(rows[order], truth[order])
            np.testing.assert_array_equal(rows[[order[0]]], truth[[order[0]]])
        assert not np.array_equal(drawn(data, partition, 0), drawn(data, partition, 1))
        held_out = load_shard(data, "validation", partition)
        (rows,) = reader.rows("validation", partition, [x], [model], epoch=1).inputs
        np.testing.assert_array_equal(rows[:], held_out.inputs[0])
        (rows,) = reader.rows("train", partition, [x], [model]).inputs
        np.testing.assert_array_equal(rows[:], load_shard(data, "train", partition).inputs[0])


def test_stored_copies_are_the_layers_of_what_is_drawn(
    data: GrowingData, features: FeatureStore, model: OpenedTrunk
) -> None:
    own, top = augmenter(data), model.expressions()[5]
    passed = fill(features, data, model, own, 2, 5)
    trained = sum(one.rows for one in segments_of(data) if one.split == "train")
    held_out = sum(one.rows for one in segments_of(data) if one.split == "validation")
    assert passed == 3 * trained + held_out
    reader = FeatureReader(features, data, batch_size=SIZE, augmenter=own)
    x = model.expressions()[0]
    for partition in data.partitions:
        for epoch in (0, 2, 4):
            (stored,) = reader.rows("train", partition, [top], [model], epoch=epoch).inputs
            truth = Trunk([model], [x], [top])({x: drawn(data, partition, epoch % 3)})[top]
            np.testing.assert_allclose(stored[:], truth, atol=1e-5)
        (stored,) = reader.rows("validation", partition, [top], [model]).inputs
        held = load_shard(data, "validation", partition).inputs[0]
        np.testing.assert_allclose(stored[:], Trunk([model], [x], [top])({x: held})[top], atol=1e-5)
    assert reader.remade == 0


def test_stored_copies_have_the_bits_of_a_loop_over_the_same_batches(
    first: GrowingData, features: FeatureStore, model: OpenedTrunk
) -> None:
    own, x, top = augmenter(first), model.expressions()[0], model.expressions()[6]
    fill(features, first, model, own, 6)
    reader = FeatureReader(features, first, batch_size=SIZE, augmenter=own)
    for partition in first.partitions:
        rows, trunk = drawn(first, partition, 1), Trunk([model], [x], [top])
        truth = [trunk({x: rows[start : start + SIZE]})[top] for start in range(0, len(rows), SIZE)]
        (stored,) = reader.rows("train", partition, [top], [model], epoch=1).inputs
        np.testing.assert_array_equal(stored[:], np.concatenate(truth))


def test_a_later_batch_passes_its_own_rows_alone_and_more_copies_leave_those_there_are(
    store: Store, first: GrowingData, features: FeatureStore, model: OpenedTrunk
) -> None:
    fill(features, first, model, augmenter(first), 5)
    data = add_batch(store, "data", SECOND, first)
    new = [one for one in segments_of(data) if one.increment == 1]
    weights = [3 if one.split == "train" else 1 for one in new]
    # A corrected label is no new row, a changed record is.
    assert fill(features, data, model, augmenter(data), 5) == sum(
        weight * one.rows for weight, one in zip(weights, new, strict=True)
    )
    assert fill(features, data, model, augmenter(data), 5) == 0
    more = augmenter(data, copies=4)
    trained = sum(one.rows for one in segments_of(data) if one.split == "train")
    assert fill(features, data, model, more, 5) == trained


def test_a_damaged_copy_is_made_again_with_its_bits(
    first: GrowingData, features: FeatureStore, model: OpenedTrunk
) -> None:
    own, key = augmenter(first), model.expressions()[5]
    fill(features, first, model, own, 5)
    segment = next(one for one in own.segments(first) if one.copy == 2)
    intact = features.open(key, segment)[:].copy()
    path = Path(features.store.path(*features._path(key, segment, "bin")))
    content = bytearray(path.read_bytes())
    content[5] ^= 1
    path.write_bytes(content)
    reader = FeatureReader(features, first, batch_size=SIZE, augmenter=own)
    (stored,) = reader.rows("train", segment.partition, [key], [model], epoch=2).inputs
    assert reader.remade == 1
    np.testing.assert_array_equal(stored[:], intact)


def test_copies_of_another_function_or_seed_are_never_taken(
    first: GrowingData, features: FeatureStore, model: OpenedTrunk
) -> None:
    own, key = augmenter(first), model.expressions()[5]
    fill(features, first, model, own, 5)
    louder = augmenter(first, partial(jittered, scale=0.2))
    other = augmenter(first, seed=SEED + 1)
    assert len({own.key, louder.key, other.key}) == 3
    assert augmenter(first).key == own.key == augmenter(first, copies=7).key
    for changed in (louder, other):
        copies = [one for one in changed.segments(first) if one.copy is not None]
        assert features.missing(key, copies) == copies
    # What is not read any more goes, and what is validated on stays.
    features.retain([key], louder.segments(first))
    assert not any(features.has(key, one) for one in own.segments(first) if one.copy is not None)
    assert all(features.has(key, one) for one in louder.segments(first) if one.copy is None)


def test_records_and_copies_do_not_lie_beside_each_other(
    first: GrowingData, features: FeatureStore, model: OpenedTrunk
) -> None:
    own, key = augmenter(first), model.expressions()[5]
    for segment in segments_of(first):
        compute(features, first, segment, [key], [model], batch_size=SIZE)
    raw = features.used_bytes()
    fill(features, first, model, own, 5)
    features.retain([key], own.segments(first))
    assert not any(features.has(key, one) for one in segments_of(first) if one.split == "train")
    assert all(features.has(key, one) for one in own.segments(first))
    features.retain([key], segments_of(first))
    assert 0 < features.used_bytes() < raw


def test_a_rate_of_the_function_that_no_sample_shows_changes_the_key(first: GrowingData) -> None:
    """Both leave all records of the sample as they are."""

    def rarely(limit: float) -> Any:
        return lambda record, generator: record if generator.random() > limit else {"pixels": -record["pixels"]}

    keys = {augmenter(first, rarely(limit)).key for limit in (1e-9, 1e-8)}
    assert len(keys) == 2


def fails(record: dict[str, Any], generator: np.random.Generator) -> dict[str, Any]:
    raise ValueError("no such transform")


def own_state(record: dict[str, Any], generator: np.random.Generator) -> dict[str, Any]:
    own_state.calls = getattr(own_state, "calls", 0) + 1  # type: ignore[attr-defined]
    return {"pixels": record["pixels"] * np.float32(own_state.calls)}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (fails, "record s0, copy 0: augmentation must not raise, got ValueError: no such"),
        (
            lambda record, _: {**record, "more": 1},
            "record s0, copy 0: augmentation must return the columns pixels, got pixels,",
        ),
        (lambda _, __: {}, "record s0, copy 0: augmentation must return the columns pixels, got"),
        (
            lambda record, _: record["pixels"],
            "record s0, copy 0: augmentation must return the columns pixels, got ndarray",
        ),
        (
            lambda record, _: {"pixels": record["pixels"][:3]},
            r"record s0, copy 0: augmentation must return column 'pixels' as float32\[6\],",
        ),
        (
            lambda record, _: {"pixels": record["pixels"] * np.float64(2)},
            r"record s0, copy 0: augmentation must return column 'pixels' as float32\[6\],",
        ),
        (
            lambda record, _: {"pixels": record["pixels"] / np.float32(np.inf) * np.float32(np.inf)},
            "record s0, copy 0: augmentation must return finite numbers in column",
        ),
        (own_state, "record s0: augmentation must take all random numbers from its generator, so"),
        (
            lambda record, _: {"pixels": record["pixels"] + np.float32(random.random())},
            "record s0: augmentation must take all random numbers from its generator, so",
        ),
        (
            lambda record, _: (torch.rand(1), record)[1],
            "record s0: augmentation must take all random numbers from its generator, so",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_no_function_of_an_augmentation_may_do(first: GrowingData, fn: Any, message: str) -> None:
    with pytest.raises(AugmentationError, match=message):
        augmenter(first, fn)


@pytest.mark.parametrize("copies", [0, -1, 1.5, True, "2"])
def test_copies_are_whole_numbers_from_one_on(copies: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="copies"):
        Augmentation(jittered, copies)


def test_a_function_is_called() -> None:
    with pytest.raises(InvalidArgumentError, match="a function of a record's tensors"):
        Augmentation("flip", 2)  # type: ignore[arg-type]


def test_a_function_gets_a_copy_of_its_own(first: GrowingData, features: FeatureStore) -> None:
    """``jittered`` works in place: the records stay as they were, in memory and where they are mapped."""
    model, own = open_trunk({}), augmenter(first)
    for memory in (None, 0):
        reader = FeatureReader(features, first, batch_size=SIZE, memory_bytes=memory, augmenter=own)
        x = model.expressions()[0]
        for _ in range(2):
            (rows,) = reader.rows("train", 0, [x], [model], epoch=0).inputs
            np.testing.assert_array_equal(rows[:], drawn(first, 0, 0))


def test_torch_tensors_may_come_back(first: GrowingData) -> None:
    augmenter(first, lambda record, _: {"pixels": torch.flip(torch.from_numpy(record["pixels"]), (0,))})


@given(st.integers(0, 2**63 - 1), st.text(max_size=8), st.integers(0, 9))
def test_generators_follow_from_seed_id_and_copy(seed: int, record: str, copy: int) -> None:
    one, same = (Augmentation.generator(seed, record, copy).random(4).tolist() for _ in range(2))
    assert one == same
    for other in ((seed + 1, record, copy), (seed, f"{record}1", copy), (seed, record, copy + 1)):
        assert Augmentation.generator(*other).random(4).tolist() != one


def test_columns_side_by_side_are_given_one_by_one() -> None:
    """Two columns make a vector; one of them is an input by itself too."""
    film, score = TensorColumn("film", "float32"), TensorColumn("score", "float32", (2,))
    groups = (TensorGroup("both", (film, score)), TensorGroup("score", (score,)))

    def louder(record: dict[str, Any], _: np.random.Generator) -> dict[str, Any]:
        assert record["film"].shape == ()
        return {"film": record["film"], "score": record["score"] * np.float32(2)}

    own = Augmenter(Augmentation(louder, 1), 0, groups, "")
    both, alone = own((np.array([[1, 2, 3]], np.float32), np.array([[2, 3]], np.float32)), ["r"], 0)
    assert both.tolist() == [[1, 4, 6]]
    assert alone.tolist() == [[4, 6]]


SCALE = 1


def scaled(x: int) -> int:
    return x * SCALE


def test_functions_are_told_apart_by_what_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    class Scaling:
        def __init__(self, by: float) -> None:
            self.by = by

        def __call__(self, x: float) -> float:
            return x * self.by

    def closed(by: Any) -> Any:
        return lambda x: x * by

    def recursive(x: int) -> int:
        return recursive(x - 1) if x else 0

    alike = [lambda: Scaling(2), lambda: closed(2), lambda: partial(scaled, x=2), lambda: Scaling(2).__call__]
    assert [described(make()) == described(make()) for make in alike] == [True] * 4
    assert described(Scaling(2)) != described(Scaling(3))
    assert described(closed(np.arange(3))) != described(closed(np.arange(1, 4)))
    assert described(partial(scaled, x=2)) != described(partial(scaled, x=3))
    assert described(closed({"a", "b"})) == described(closed({"b", "a"}))
    assert described(recursive) == described(recursive)
    before = described(partial(scaled, 1))
    monkeypatch.setitem(scaled.__globals__, "SCALE", 2)
    assert described(partial(scaled, 1)) != before


def test_layers_of_a_pools_records_are_not_those_of_their_copies(
    first: GrowingData, features: FeatureStore, model: OpenedTrunk
) -> None:
    """A record held out takes them over, one that is trained on passes as its copies."""
    own, key = augmenter(first), model.expressions()[5]
    layer = model.graph[model.graph.names[5]]
    for segment in segments_of(first):
        ids, hashes = Ledger(first.increments, segment.split, segment.partition).records(segment.increment)
        known = np.full((len(ids), *layer.output_shape), 7, np.float32)
        PoolFeatures(features).add(segment.split, segment.partition, ids, hashes, {key: known})
    fill(features, first, model, own, 5)
    for segment in own.segments(first):
        assert np.all(features.open(key, segment)[:] == 7) == (segment.split == "validation")


def test_no_more_copies_than_epochs_and_these_are_the_same(first: GrowingData) -> None:
    whole = Augmenter.checked(Augmentation(jittered, 7), first, SEED)
    few = whole.within(2)
    assert (few.copies, whole.within(9).copies) == (2, 7)
    assert [few.copy_of(epoch) for epoch in range(2)] == [whole.copy_of(epoch) for epoch in range(2)]
    assert set(few.segments(first)) < set(whole.segments(first))
    assert few.rows_of(100, first) < whole.rows_of(100, first)


def test_an_augmentation_has_the_name_of_its_function() -> None:
    named = f"{jittered.__module__}.jittered"
    assert Augmentation(jittered, 2).name == Augmentation(partial(partial(jittered), scale=1.0), 2).name == named
