"""Metrics that are functions of the user: their arguments, their numbers, their names."""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
import numpy as np
import pytest
from sklearn import metrics as reference

from udfs.metrics import MetricError, Sums, is_batch_mean, merge_sums, metric

OUTPUTS = np.random.default_rng(0).normal(size=(10, 1)).astype(np.float32)
LABELS = np.random.default_rng(1).uniform(1, 2, 10).astype(np.float32)


def relative(outputs: Any, labels: Any) -> Any:
    return np.abs(outputs[:, 0] - labels) / labels


def batch(outputs: Any, labels: Any, power: int = 1) -> float:
    return float((np.abs(outputs[:, 0] - labels) ** power).mean())


def test_one_number_a_batch_counts_by_rows() -> None:
    sums = Sums([metric(batch), metric(relative)])
    parts = [sums.contributions(OUTPUTS[part], LABELS[part]) for part in (slice(7), slice(7, 10))]
    found = sums.results(merge_sums(*parts))
    assert found["batch"] == pytest.approx(batch(OUTPUTS, LABELS))
    assert found["relative"] == pytest.approx(relative(OUTPUTS, LABELS).mean())
    assert [is_batch_mean(each, parts[0][each.name]) for each in sums.metrics] == [True, False]
    assert metric(partial(batch, power=2)).name == "batch"


@pytest.mark.parametrize(
    "function",
    [
        reference.mean_absolute_percentage_error,
        keras.metrics.mean_absolute_percentage_error,
        lambda y_true, y_pred: np.abs(y_pred.reshape(-1) - y_true) / y_true,
    ],
    ids=["scikit-learn", "keras", "own"],
)
def test_labels_come_first_where_the_parameters_say_so(function: Any) -> None:
    made = metric(function)
    outputs = OUTPUTS[:, 0]
    found = made.result(made.part(outputs, LABELS))
    expected = (np.abs(outputs - LABELS) / LABELS).mean() * (100 if "keras" in function.__module__ else 1)
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (keras.metrics.AUC, r"got the class AUC. Write AUC\(\)"),
        (keras.losses.MeanSquaredError(), "must be a function with a name"),
    ],
)
def test_what_is_no_metric_is_refused(wanted: Any, message: str) -> None:
    with pytest.raises(MetricError, match=message):
        metric(wanted)


@pytest.mark.parametrize("returned", [None, np.zeros(3), np.zeros((2, 10))])
def test_numbers_of_neither_rows_nor_a_batch_are_refused(returned: Any) -> None:
    with pytest.raises(MetricError, match="must return one number a row or a batch"):
        metric(lambda outputs, labels: returned).part(OUTPUTS, LABELS)
