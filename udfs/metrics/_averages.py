"""Averages of metrics over classes or labels, as in scikit-learn's ``average=``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from udfs.metrics._areas import area
from udfs.metrics._metric import Metric, MetricError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["AVERAGED", "AVERAGES", "averaged_metric"]

AVERAGES = ("macro", "micro", "weighted")
"""Averages over classes: of all classes equally, of all decisions equally, or weighted by the rows of each class."""

Weights = NDArray[np.float64] | None


def averaged_metric(name: str, average: str, *, labels: bool) -> Metric:
    """Make a metric that is an average over classes, or over the labels of a row.

    Parameters
    ----------
    name : {"precision", "recall", "f1", "auc"}
        Metric of two classes.
    average : {"macro", "micro", "weighted"}
        Average. The macro average takes the classes that occur in labels or predictions, or all labels of a row.
    labels : bool
        Whether a row has several labels, instead of one class. Scores are then positive for a label.

    Returns
    -------
    Metric
        Metric of scores of shape ``(rows, classes)``, and class numbers of shape ``(rows,)`` or labels 0 and 1 of shape
        ``(rows, labels)``. For ``"auc"`` the scores of classes are probabilities, and each class is set against the
        rest.

    Examples
    --------
    >>> f1 = averaged_metric("f1", "macro", labels=False)
    >>> scores, truth = np.eye(3)[[0, 0, 1, 2]], np.array([0, 1, 1, 2])
    >>> round(f1.result(f1.part(scores, truth)), 4)
    0.7778
    """
    part: Callable[..., NDArray[np.float64]]
    if name == "auc":
        part = partial(_scores_and_truth, labels=labels)
        result: Callable[[NDArray[np.float64]], float] = partial(_area, average=average)
    else:
        part = partial(_counts, labels=labels)
        result = partial(_RESULTS[name], average=average, every=labels)
    return Metric(f"{name}_{average}", part, result, larger_is_better=True, weighted=part)


def _truth(scores: NDArray[Any], truth: NDArray[Any], *, labels: bool) -> NDArray[np.bool_]:
    """Return which classes or labels each row has."""
    if labels:
        return np.asarray(truth.reshape(scores.shape) > 0)
    classes = truth.reshape(-1).astype(np.int64)
    if len(classes) and not (classes.min() >= 0 and classes.max() < scores.shape[1]):
        odd = classes[(classes < 0) | (classes >= scores.shape[1])][0]
        raise MetricError(f"labels must be classes from 0 to {scores.shape[1] - 1}, got {odd}")
    return np.asarray(classes[:, None] == np.arange(scores.shape[1]))


def _counts(scores: NDArray[Any], truth: NDArray[Any], weights: Weights = None, *, labels: bool) -> NDArray[np.float64]:
    """Count, by class, the true positives, the predicted positives and the actual positives."""
    actual = _truth(scores, truth, labels=labels)
    predicted = scores > 0 if labels else scores.argmax(axis=1)[:, None] == np.arange(scores.shape[1])
    share = np.ones(len(scores)) if weights is None else weights
    return np.concatenate([share @ cells.astype(np.float64) for cells in (predicted & actual, predicted, actual)])


def _ratio(
    counts: NDArray[np.float64],
    ratio: Callable[[NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]],
    average: str,
    *,
    every: bool,
) -> float:
    table = counts.reshape(3, -1)
    if average == "micro":
        table = table.sum(axis=1, keepdims=True)
    above, below = ratio(table)
    values = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    occurs = np.ones(len(values), np.bool_) if every or average == "micro" else (table[1] + table[2]) > 0
    shares = table[2] if average == "weighted" else occurs.astype(np.float64)
    return float((values * shares).sum() / shares.sum()) if shares.sum() else 0.0


_RESULTS = {
    "precision": partial(_ratio, ratio=lambda table: (table[0], table[1])),
    "recall": partial(_ratio, ratio=lambda table: (table[0], table[2])),
    "f1": partial(_ratio, ratio=lambda table: (2 * table[0], table[1] + table[2])),
}


def _scores_and_truth(
    scores: NDArray[Any], truth: NDArray[Any], weights: Weights = None, *, labels: bool
) -> NDArray[np.float64]:
    """Return the scores, the truth and the weight of each row side by side."""
    share = np.ones(len(scores)) if weights is None else weights
    columns = [scores.astype(np.float64), _truth(scores, truth, labels=labels).astype(np.float64), share[:, None]]
    return np.concatenate(columns, axis=1)


def _area(table: NDArray[np.float64], average: str) -> float:
    """Average the areas under the ROC curves of each class against the rest, where it and the rest have rows."""
    width = table.shape[1] // 2
    scores, truth, weights = table[:, :width], table[:, width:-1] > 0, table[:, -1]
    if average == "micro":
        return area(scores.reshape(-1), truth.reshape(-1), np.repeat(weights, width))
    areas = np.array([area(scores[:, place], truth[:, place], weights) for place in range(width)])
    known = np.isfinite(areas)
    shares = (weights @ truth if average == "weighted" else np.ones(width)) * known
    return float((np.where(known, areas, 0) * shares).sum() / shares.sum()) if shares.sum() else float("nan")


AVERAGED: Mapping[str, tuple[str, str]] = {
    f"{name}_{average}": (name, average) for name in ("precision", "recall", "f1", "auc") for average in AVERAGES
}
"""Names of averages, each with the name of the metric and that of the average."""
