"""Metric objects of Keras and torchmetrics give the same over batches and shards as over all rows at once."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import torch

from udfs.metrics import MetricError, Sums, merge_sums, metric

ROWS = 50
RANDOM = np.random.default_rng(0)
CHANCES = RANDOM.dirichlet(np.ones(3), ROWS).astype(np.float32)
CLASSES = RANDOM.integers(0, 3, ROWS)
CHANCE, PAIR = CHANCES[:, :1], (CLASSES > 0).astype(np.int64)
WEIGHTS = RANDOM.uniform(0.5, 2, ROWS).astype(np.float32)


class Largest(keras.metrics.Metric):  # type: ignore[misc] # Keras is untyped
    """Metric of Keras whose state is not a sum."""

    def __init__(self) -> None:
        super().__init__(name="largest")
        self.most = self.add_weight(shape=(), initializer="zeros", name="most")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.most.assign(keras.ops.maximum(self.most, keras.ops.max(y_pred)))

    def result(self) -> Any:
        return self.most


def dim_zero_sum(values: Any) -> Any:
    return values.sum(0)


class Torchmetric:
    """Metric with the interface of torchmetrics: states by name, each with its reduction and first value."""

    higher_is_better = True
    total: Any
    count: Any

    def __init__(self, reduction: Any, first: Any) -> None:
        self._reductions, self._defaults, self._computed = {"total": reduction, "count": reduction}, {}, None
        for name in self._reductions:
            self._defaults[name] = first
        self.reset()

    def reset(self) -> None:
        for name, first in self._defaults.items():
            setattr(self, name, [] if isinstance(first, list) else first.clone())

    def update(self, preds: Any, target: Any) -> None:
        assert preds.shape == target.shape
        right = ((preds > 0.5) == target).double()
        if isinstance(self.total, list):
            self.total.append(right)
        else:
            self.total, self.count = self.total + right.sum(), self.count + len(right)

    def compute(self) -> Any:
        return torch.cat(self.total).mean() if isinstance(self.total, list) else self.total / self.count


OBJECTS = {
    "accuracy": (keras.metrics.SparseCategoricalAccuracy, CHANCES, CLASSES),
    "mean": (keras.metrics.MeanSquaredError, CHANCE, PAIR),
    "root": (keras.metrics.RootMeanSquaredError, CHANCE, PAIR),
    "area": (keras.metrics.AUC, CHANCE, PAIR),
    "f1": (lambda: keras.metrics.F1Score(average="macro"), CHANCES, np.eye(3, dtype=np.float32)[CLASSES]),
    "own": (Largest, CHANCE, PAIR),
}


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("name", OBJECTS)
def test_of_keras(name: str, weighted: bool) -> None:
    make, outputs, labels = OBJECTS[name]
    alone = make()
    alone.update_state(labels, outputs, sample_weight=WEIGHTS if weighted else None)
    made = make()
    sums = Sums([metric(made)])
    total: dict[str, Any] = {}
    for part in (slice(9), slice(9, 10), slice(10, None)):
        weights = WEIGHTS[part] if weighted else None
        total = merge_sums(total, sums.contributions(outputs[part], labels[part], weights))
    assert sums.results(total) == {made.name: pytest.approx(float(alone.result()), rel=1e-5)}


@pytest.mark.parametrize("first", [torch.tensor(0.0), []], ids=["sums", "lists"])
def test_of_torchmetrics(first: Any) -> None:
    sums = Sums([metric(Torchmetric(dim_zero_sum if first != [] else None, first))])
    total: dict[str, Any] = {}
    for part in (slice(9), slice(9, None)):
        total = merge_sums(total, sums.contributions(CHANCE[part], PAIR[part]))
    expected = ((CHANCE[:, 0] > 0.5) == PAIR).mean()
    assert sums.results(total) == {"torchmetric": pytest.approx(expected)}
    assert sums.larger_is_better["torchmetric"] is True
    with pytest.raises(MetricError, match="'torchmetric' has no weighted form"):
        sums.contributions(CHANCE, PAIR, WEIGHTS)


def test_directions() -> None:
    assert metric(keras.metrics.SparseCategoricalAccuracy()).larger_is_better is True
    assert metric(keras.metrics.MeanSquaredError()).larger_is_better is False
    assert metric(Largest()).larger_is_better is None
    assert metric(Largest(), maximize=True).larger_is_better is True


def test_several_numbers_are_refused() -> None:
    f1 = metric(keras.metrics.F1Score(average=None))
    part = f1.part(CHANCES, np.eye(3, dtype=np.float32)[CLASSES])
    with pytest.raises(MetricError, match=r"metric 'f1_score' must give one number, got .* of shape \(3,\)"):
        f1.result(part)
