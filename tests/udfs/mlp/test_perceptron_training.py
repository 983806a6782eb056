"""Training by threads that meet as Spark's tasks do, against the same training in plain torch."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import nn

from udfs.arrow import RowMap, RowPolicy
from udfs.gang import Gang
from udfs.mlp import PerceptronError, Scoring, Training
from udfs.mlp._rows import Census, Rows, read_rows
from udfs.mlp._shares import batch_shares
from udfs.mlp._solvers import SGD, Adam
from udfs.mlp.fit import Fitted, fit
from udfs.mlp.network import Perceptron, from_bytes, to_bytes
from udfs.packing import StateError

TRAINING = Training(
    hidden=(8, 5),
    regression=False,
    classes=None,
    epochs=4,
    step_size=0.1,
    solver="sgd",
    batch_size=1000,
    backend="gloo",
    standardise=False,
    l2=0.0,
    seed=3,
    device="cpu",
    largest=2**30,
    features="features",
    label="label",
)
SIZES = [6, 8, 5, 3]


def table(count: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(1)
    labels = draw.integers(0, 3, count)
    features = draw.normal(size=(count, 6)) * [1, 2, 0.1, 1, 1, 1] + labels[:, None] + [0, 5, 0, 0, 0, 0]
    return features.astype(np.float32), labels.astype(np.float64)


def trained(
    training: Training, counts: list[int], sizes: list[int] | None = None, weights: np.ndarray | None = None
) -> Fitted:
    """Fit with one member of a gang for each count of rows; all members have to have the same bits."""
    features, labels = table(sum(counts))
    if training.regression:
        labels = features[:, 1].astype(np.float64) * 40 - 7
    weighted = np.ones(len(labels)) if weights is None else weights
    ends = np.cumsum([0, *counts])
    barrier, messages = threading.Barrier(len(counts), timeout=60), [""] * len(counts)

    def member(rank: int) -> Fitted:
        def exchange(message: str) -> list[str]:
            messages[rank] = message
            barrier.wait()
            return list(messages)

        own = slice(ends[rank], ends[rank + 1])
        gang = Gang.connect(rank, len(counts), "127.0.0.1", exchange, 60)
        rows = Rows(features[own].copy(), labels[own].copy(), weighted[own])
        return fit(gang, rows, training, sizes or SIZES, counts)

    with ThreadPoolExecutor(len(counts)) as pool:
        first, *others = pool.map(member, range(len(counts)))
    for other in others:
        assert to_bytes(other.network) == to_bytes(first.network)
        assert other.losses == first.losses
    return first


def assert_same(one: nn.Module, other: nn.Module, atol: float = 1e-5) -> None:
    for name, value in one.state_dict().items():
        torch.testing.assert_close(
            value, other.state_dict()[name], atol=atol, rtol=0, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("solver", ["sgd", "adam"])
@pytest.mark.parametrize("counts", [[20], [13, 7], [5, 0, 15], [1, 1, 18]], ids=str)
def test_full_batches_are_those_of_plain_torch(solver: Any, counts: list[int]) -> None:
    """The uneven and the empty partition too: a mean of the tasks' means would be another one."""
    training = replace(TRAINING, solver=solver, l2=0.05, step_size=0.01)
    found = trained(training, counts)
    plain = Perceptron(SIZES)
    plain.initialise(training.seed)
    kind = torch.optim.Adam if solver == "adam" else torch.optim.SGD
    penalised = [value for value in plain.parameters() if value.dim() > 1]
    rest = [value for value in plain.parameters() if value.dim() == 1]
    optimizer = kind([{"params": penalised, "weight_decay": 0.05}, {"params": rest}], lr=0.01)
    features, labels = map(torch.from_numpy, table(20))
    losses = []
    for _ in range(training.epochs):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(plain.layers(features), labels.long())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert_same(found.network, plain)
    np.testing.assert_allclose(found.losses, losses, rtol=1e-4)


def test_mini_batches_are_those_of_one_machine() -> None:
    counts, size = [9, 0, 14], 6
    training = replace(TRAINING, batch_size=size, epochs=3, step_size=0.02)
    found = trained(training, counts)
    features, labels = map(torch.from_numpy, table(23))
    plain = Perceptron(SIZES)
    plain.initialise(training.seed)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.02)
    starts = np.cumsum([0, *counts])
    seen = []
    for epoch in range(3):
        orders = [np.random.default_rng([3, epoch, rank]).permutation(n) for rank, n in enumerate(counts)]
        taken = np.zeros(3, int)
        for shares in batch_shares(counts, size):
            picked = np.concatenate(
                [starts[rank] + orders[rank][taken[rank] :][:share] for rank, share in enumerate(shares)]
            )
            taken += shares
            seen.append(picked)
            optimizer.zero_grad()
            nn.functional.cross_entropy(plain.layers(features[picked]), labels[picked].long()).backward()
            optimizer.step()
    assert_same(found.network, plain)
    epochs = [np.concatenate(seen[start : start + 4]) for start in (0, 4, 8)]
    assert all(sorted(epoch) == list(range(23)) for epoch in epochs)
    assert not np.array_equal(epochs[0], epochs[1]), "the order is another one in every epoch"


@pytest.mark.parametrize("counts", [[23], [9, 0, 14]], ids=str)
def test_standardisation_is_over_all_rows(counts: list[int]) -> None:
    found = trained(replace(TRAINING, standardise=True), counts).network
    features, _ = table(23)
    np.testing.assert_allclose(found.mean, features.astype(np.float64).mean(0), rtol=1e-12)
    np.testing.assert_allclose(found.scale, features.astype(np.float64).std(0), rtol=1e-9)
    np.testing.assert_allclose(found.standardised(torch.from_numpy(features)).numpy().std(0), np.ones(6), rtol=1e-5)


def test_a_constant_is_not_blown_up() -> None:
    """Neither one that float32 holds, nor one that is computed in two ways and differs in its last bit."""
    values = np.full((50, 2), 0.1, np.float32)
    values[::2, 1] = np.nextafter(values[0, 1], np.float32(1))
    rows = Rows(values, np.arange(50.0) % 2, np.ones(50))
    network = fit(Gang(0, 1), rows, replace(TRAINING, standardise=True, hidden=()), [2, 2], [50]).network
    assert network.scale.tolist() == [1.0, 1.0]
    np.testing.assert_allclose(rows.features, 0.0, atol=1e-7)


@pytest.mark.parametrize("standardise", [False, True])
def test_regression_learns_in_the_units_of_its_label(standardise: bool) -> None:
    training = replace(
        TRAINING, regression=True, standardise=standardise, solver="adam", hidden=(), epochs=300, step_size=0.05
    )
    found = trained(training, [30, 11], [6, 1])
    features, _ = table(41)
    wanted = features[:, 1].astype(np.float64) * 40 - 7
    loss = float(np.mean((found.network(torch.from_numpy(features)).detach().numpy()[:, 0] - wanted) ** 2))
    if standardise:
        assert loss < 0.01 * wanted.var()
    np.testing.assert_allclose(found.losses[-1], loss, rtol=0.2)


def test_the_seed_decides() -> None:
    training = replace(TRAINING, batch_size=4, standardise=True)
    once, again = (to_bytes(trained(training, [9, 11]).network) for _ in range(2))
    assert once == again
    assert to_bytes(trained(replace(training, seed=4), [9, 11]).network) != once
    trained(replace(training, seed=-1), [9, 11])


def test_a_loss_that_is_no_number_ends_the_training() -> None:
    training = replace(TRAINING, regression=True, step_size=1e30, epochs=50)
    assert len(trained(training, [9, 11], [6, 8, 1]).losses) < 50


@pytest.mark.parametrize("pair", [(SGD, torch.optim.SGD), (Adam, torch.optim.Adam)], ids=["sgd", "adam"])
def test_solvers_are_those_of_torch(pair: Any) -> None:
    ours, theirs = torch.ones(4, 3), torch.ones(4, 3, requires_grad=True)
    solver, optimizer = pair[0]([ours], 0.1), pair[1]([theirs], lr=0.1)
    draw = torch.Generator().manual_seed(0)
    for step in range(20):
        gradient = torch.randn(4, 3, generator=draw) * 10.0 ** (step % 5 - 3)
        solver.step([gradient])
        theirs.grad = gradient.clone()
        optimizer.step()
        torch.testing.assert_close(ours, theirs.detach(), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize(
    ("rows", "size"), [([6, 3, 0], 4), ([1], 1), ([5, 5], 3), ([1000, 1, 10], 7), ([3, 2], 1), ([4, 4], 100)]
)
def test_every_batch_is_full_and_every_row_in_one(rows: list[int], size: int) -> None:
    shares = batch_shares(rows, size)
    assert shares.sum(axis=0).tolist() == rows
    assert shares.sum(axis=1)[:-1].tolist() == [size] * (len(shares) - 1)
    assert 0 < shares.sum(axis=1)[-1] <= size
    proportional = np.outer(shares.sum(axis=1), rows) / sum(rows)
    assert np.abs(shares - proportional).max() < len(rows)


def test_no_rows_are_no_batches() -> None:
    assert batch_shares([0, 0], 4).shape == (0, 2)


def batch(features: list[Any], labels: list[Any]) -> pa.RecordBatch:
    return pa.record_batch(
        {"features": pa.array(features, pa.list_(pa.float32())), "label": pa.array(labels, pa.float64())}
    )


def test_rows_are_read_and_counted() -> None:
    nan, inf = float("nan"), float("inf")
    batches = [
        batch([], []),
        batch([[9, 9], [1, 2], None, [3, nan], [4, 5]], [0, 0, 1, 1, None])[1:],
        batch([[6, inf], [7, None], [8, 9], [10, 11], [12, 13]], [1, 1, nan, -inf, 2.5]),
    ]
    rows = read_rows(batches)
    assert rows.features.tolist() == [[1, 2], [12, 13]]
    assert rows.labels.tolist() == [0, 2.5]
    assert rows.census == Census(
        rows=9,
        null_features=1,
        odd_features=3,
        null_labels=2,
        odd_labels=1,
        fractional=1,
        shortest=2,
        longest=2,
        least=0,
        most=2.5,
        weight=9.0,
    )
    uneven = read_rows([batch([[1, 2]], [0]), batch([[3]], [-1]), batch([None], [0])])
    assert (uneven.census.shortest, uneven.census.longest, uneven.census.fractional) == (1, 2, 1)
    assert uneven.census + Census() == uneven.census
    assert read_rows([]).features.shape == (0, 0)


@pytest.mark.parametrize(
    ("census", "kind", "message"),
    [
        (Census(), "empty", "no rows"),
        (Census(rows=3, null_features=2), "features", r"'features' is null in 2 of 3 rows"),
        (Census(rows=3, shortest=2, longest=4), "features", "2 to 4 numbers"),
        (Census(rows=3, shortest=2, longest=2, odd_features=1), "features", "NaN, infinity or null.* 1 of 3 rows"),
        (Census(rows=3, least=0, most=1), "features", "length 0"),
        (Census(rows=3, shortest=1, longest=1, null_labels=1), "label", "'label' is null or NaN in 1 of 3"),
        (Census(rows=3, shortest=1, longest=1, odd_labels=1), "label", "infinite in 1"),
        (Census(rows=3, shortest=1, longest=1, fractional=2, least=-1, most=1), "label", r"-1 to 1.*StringIndexer"),
        (Census(rows=3, shortest=1, longest=1, least=1, most=1), "label", "all of class 1: two"),
        (Census(rows=3, shortest=1, longest=1, least=0, most=3), "label", "up to 3, but .*3 rows"),
        (Census(rows=3, shortest=2**24, longest=2**24, least=0, most=1), "size", r"536,\d\d\d,\d\d\d bytes.*smaller"),
    ],
)
def test_faults_of_the_data(census: Census, kind: str, message: str) -> None:

    training = replace(TRAINING, largest=2**29)
    fault = training.fault(census)
    assert fault is not None
    assert fault.kind == kind
    assert re.search(message, fault.message)
    assert training.fault(Census(rows=3, shortest=2, longest=2, least=0, most=2)) is None


def test_faults_that_are_none() -> None:
    good = Census(rows=5, shortest=2, longest=2, fractional=3, least=-0.5, most=-0.5)
    assert replace(TRAINING, regression=True).fault(good) is None
    known = replace(TRAINING, classes=9)
    assert known.fault(Census(rows=3, shortest=2, longest=2, least=0, most=8)) is None
    fault = known.fault(Census(rows=3, shortest=2, longest=2, least=0, most=9))
    assert fault is not None
    assert "knows 9 classes" in fault.message


def test_a_network_through_safetensors() -> None:
    network = Perceptron([4, 3, 2])
    network.initialise(9)
    network.mean += 5
    network.target_scale.fill_(2.5)
    back = from_bytes(to_bytes(network))
    assert_same(back, network, atol=0)
    assert back.sizes == (4, 3, 2)
    before = torch.random.get_rng_state()
    Perceptron([4, 3, 2]).initialise(1)
    assert torch.equal(torch.random.get_rng_state(), before), "the process's own random numbers moved"
    for damaged in (b"", to_bytes(network)[:20], b"not a network at all"):
        with pytest.raises(StateError, match=f"{len(damaged)} bytes that are not a perceptron"):
            from_bytes(damaged)


def test_scoring() -> None:
    network = Perceptron([2, 3])
    network.initialise(0)
    scoring = Scoring(to_bytes(network), "features", "margins", "chance", "guess", "cpu")
    rows_of = RowMap(scoring, ("id",), RowPolicy("null", "why"))
    features = [[1.0, 2.0], None, [float("nan"), 0.0], [3.0, -4.0]]
    source = pa.record_batch({"id": [1, 2, 3, 4], "features": pa.array(features, pa.list_(pa.float32()))})
    (found,) = rows_of([source[:0], source])
    with torch.no_grad():
        logits = network(torch.tensor([features[0], features[3]]))
        expected = logits.softmax(1)
    assert found.schema.names == ["id", "margins", "chance", "guess", "why"]
    assert found["why"].to_pylist() == [None, "null", "NaN or infinite feature", None]
    rows = found.to_pydict()
    assert rows["id"] == [1, 2, 3, 4]
    assert (
        [row is None for row in rows["chance"]] == [row is None for row in rows["guess"]] == [False, True, True, False]
    )
    np.testing.assert_allclose([rows["margins"][0], rows["margins"][3]], logits, atol=1e-6)
    np.testing.assert_allclose([rows["chance"][0], rows["chance"][3]], expected, atol=1e-6)
    assert [rows["guess"][0], rows["guess"][3]] == expected.argmax(1).tolist()
    (nothing,) = rows_of([source[1:3]])
    assert nothing["guess"].null_count == nothing["chance"].null_count == 2
    for wrong in ([[1.0]], [[]], [[1.0, 2.0], [1.0, 2.0, 3.0]]):
        short = pa.record_batch({"id": range(len(wrong)), "features": pa.array(wrong, pa.list_(pa.float32()))})
        with pytest.raises(PerceptronError, match="trained on 2"):
            list(rows_of([short]))


@pytest.mark.parametrize(("regression", "standardise"), [(False, False), (False, True), (True, True)])
def test_a_weight_counts_as_so_many_rows(regression: bool, standardise: bool) -> None:
    """A row of weight 3 is three rows; one of weight 0 is none, and moves neither the mean nor the loss."""
    features, labels = table(41)
    weights = np.arange(41) % 4.0
    if regression:
        labels = features[:, 1].astype(np.float64) * 40 - 7
    training = replace(TRAINING, regression=regression, standardise=standardise, weight="w", step_size=0.01)
    sizes = [6, 8, 5, 1] if regression else SIZES
    found = trained(training, [20, 0, 21], sizes, weights)
    repeated = np.repeat(np.arange(41), weights.astype(int))
    plain = replace(training, weight=None)
    rows = Rows(features[repeated].copy(), labels[repeated].copy(), np.ones(len(repeated)))
    expected = fit(Gang(0, 1), rows, plain, sizes, [len(repeated)])
    assert_same(found.network, expected.network, atol=1e-4)
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-4)


def test_bad_weights_are_counted() -> None:
    weights = pa.array([1.0, None, float("nan"), -1.0, float("inf"), 0.0])
    features = pa.array([[1.0]] * 6, pa.list_(pa.float32()))
    batch = pa.record_batch({"features": features, "label": np.arange(6.0) % 2, "weight": weights})
    rows = read_rows([batch])
    assert (rows.census.null_weights, rows.census.odd_weights, rows.census.weight) == (2, 2, 1.0)
    assert rows.weights.tolist() == [1.0, 0.0]
    named = replace(TRAINING, weight="importance")
    fault = named.fault(rows.census)
    assert fault is not None
    assert "weight 'importance' is null or NaN in 2 of 6 rows" in fault.message
    fault = named.fault(replace(rows.census, null_weights=0))
    assert fault is not None
    assert "negative or infinite in 2" in fault.message
    fault = named.fault(replace(rows.census, null_weights=0, odd_weights=0, weight=0.0))
    assert fault is not None
    assert "is 0 in all 6 rows" in fault.message
