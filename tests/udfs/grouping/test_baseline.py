from __future__ import annotations

import numpy as np
import pytest

from udfs.grouping._baseline import baseline_error, error_of
from udfs.shards import Tensors
from udfs.training import Task


def rows(labels: list[float], weights: list[float] | None = None) -> Tensors:
    shares = None if weights is None else np.array(weights, np.float32)
    return Tensors((), (np.array(labels),), len(labels), shares)


def test_majority_class_and_mean_are_of_the_training_rows() -> None:
    classes = Task("multiclass", "class index", "logits", 3)
    assert baseline_error(classes, rows([2, 2, 0]), rows([2, 0, 0, 1])) == pytest.approx(3 / 4)
    values = Task("regression", "values", "values", 1)
    assert baseline_error(values, rows([0, 4]), rows([2, 6])) == pytest.approx(np.sqrt(8))


def test_weights_change_the_majority_and_the_error() -> None:
    task = Task("binary", "0/1", "logits", 1)
    train, scored = rows([0, 0, 1], [1, 1, 5]), rows([0, 1], [3, 1])
    assert baseline_error(task, train, scored) == pytest.approx(3 / 4)


def test_error_of_margins_and_of_several_labels() -> None:
    margins = Task("binary", "-1/+1", "margins", 1)
    assert error_of(margins, np.array([[0.5], [-2.0]]), rows([-1, -1])) == 0.5
    assert error_of(Task("multilabel", "multi-hot", "logits", 2), np.zeros((1, 2)), rows([0])) is None
    one_hot = Tensors((), (np.eye(3)[[0, 2]],), 2)
    task = Task("multiclass", "one-hot", "logits", 3)
    assert error_of(task, np.eye(3)[[0, 1]], one_hot) == 0.5
    assert baseline_error(task, one_hot, Tensors((), (np.eye(3)[[0, 0]],), 2)) == 0.0
