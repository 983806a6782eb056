"""Metrics over partitioned rows: what each shard adds, and the number that comes of the sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.errors import CerebroError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

__all__ = ["METRICS", "Metric", "MetricError", "metric"]

_TOP = 5


class MetricError(CerebroError, ValueError):
    """A metric that does not exist, or that does not fit the outputs; the message says which."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A number that tells how good predictions are, from sums that any number of shards contribute to.

    Parameters
    ----------
    name : str
    part : callable
        Takes outputs of shape ``(rows, ...)`` and labels of shape ``(rows, ...)``, and gives an array that is added to
        those of other batches and shards. One of two axes is not added but put beneath the others: a row of scores and
        labels a row, for a metric that no sum tells.
    result : callable
        Makes the number of the sum.
    larger_is_better : bool
    margins : bool
        Whether a single output has to be positive for the second class: probabilities come with one half taken away.
    """

    name: str
    part: Callable[[NDArray[Any], NDArray[Any]], NDArray[np.float64]]
    result: Callable[[NDArray[np.float64]], float]
    larger_is_better: bool
    margins: bool = False


def metric(wanted: str | Metric | Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]) -> Metric:
    """Find a metric.

    Parameters
    ----------
    wanted : str, Metric or callable
        A name of :data:`METRICS`; or a function of outputs and labels (arrays of a batch) to one number a row, whose
        mean over all rows is the metric, and whose name is the function's.

    Raises
    ------
    MetricError
        No metric of that name.

    Examples
    --------
    >>> accuracy = metric("accuracy")
    >>> accuracy.result(accuracy.part(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 0])))
    0.5
    """
    if isinstance(wanted, Metric):
        return wanted
    if callable(wanted):
        per_row = wanted
        return Metric(
            getattr(wanted, "__name__", "metric"),
            lambda outputs, labels: _sums(np.asarray(per_row(outputs, labels), np.float64)),
            _mean,
            larger_is_better=True,
        )
    if wanted not in METRICS:
        raise MetricError(f"no metric {wanted!r}{nearest(wanted, METRICS)}; metrics: {', '.join(METRICS)}")
    return METRICS[wanted]


def _sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array([values.sum(), values.size])


def _mean(sums: NDArray[np.float64]) -> float:
    return float(sums[0] / sums[1]) if sums[1] else float("nan")


def _binary(outputs: NDArray[Any]) -> NDArray[Any]:
    """The score of the second of two classes; one output is that score already."""
    flat: NDArray[Any] = outputs.reshape(len(outputs), -1)
    if flat.shape[1] == 1:
        return flat[:, 0]
    if flat.shape[1] == 2:  # noqa: PLR2004 - two classes
        margin: NDArray[Any] = flat[:, 1] - flat[:, 0]
        return margin
    raise MetricError(f"a metric of two classes, and the network gives {flat.shape[1]} outputs")


def _classes(outputs: NDArray[Any], labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    flat = outputs.reshape(len(outputs), -1)
    known = labels.reshape(len(labels), -1)
    # Labels as wide as the outputs are probabilities of the classes.
    truth = known.argmax(axis=1) if known.shape[1] > 1 else known[:, 0]
    return flat.argmax(axis=1) if flat.shape[1] > 1 else flat[:, 0] > 0, truth


def _accuracy(outputs: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float64]:
    found, truth = _classes(outputs, labels)
    return _sums((found == truth).astype(np.float64))


def _top(outputs: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float64]:
    flat = outputs.reshape(len(outputs), -1)
    best = np.argsort(-flat, axis=1, kind="stable")[:, :_TOP]
    return _sums((best == labels.reshape(-1, 1)).any(axis=1).astype(np.float64))


def _confusion(outputs: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float64]:
    found, truth = _classes(outputs, labels)
    found, truth = found.astype(bool), truth.astype(bool)
    return np.array([(found & truth).sum(), (found & ~truth).sum(), (~found & truth).sum()], np.float64)


def _errors(outputs: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = outputs.reshape(len(outputs), -1).astype(np.float64) - labels.reshape(len(labels), -1)
    return found


def _scores(outputs: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float64]:
    return np.stack([_binary(outputs).astype(np.float64), labels.reshape(-1).astype(np.float64)], axis=1)


def _area(table: NDArray[np.float64]) -> float:
    """Under the ROC curve: the share of pairs of a positive and a negative in the right order, ties one half."""
    scores, truth = table[:, 0], table[:, 1] > 0
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    positives, negatives = int(truth.sum()), int((~truth).sum())
    if not positives or not negatives:
        return float("nan")
    return float((ranks[truth].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def _share(numerator: float, denominator: float) -> float:
    return float(numerator / denominator) if denominator else 0.0


METRICS: Mapping[str, Metric] = {
    found.name: found
    for found in (
        Metric("accuracy", _accuracy, _mean, larger_is_better=True, margins=True),
        Metric("top_5_accuracy", _top, _mean, larger_is_better=True, margins=True),
        Metric("precision", _confusion, lambda t: _share(t[0], t[0] + t[1]), larger_is_better=True, margins=True),
        Metric("recall", _confusion, lambda t: _share(t[0], t[0] + t[2]), larger_is_better=True, margins=True),
        Metric(
            "f1", _confusion, lambda t: _share(2 * t[0], 2 * t[0] + t[1] + t[2]), larger_is_better=True, margins=True
        ),
        Metric("auc", _scores, _area, larger_is_better=True, margins=True),
        Metric("mse", lambda o, y: _sums(_errors(o, y) ** 2), _mean, larger_is_better=False),
        Metric("rmse", lambda o, y: _sums(_errors(o, y) ** 2), lambda t: _mean(t) ** 0.5, larger_is_better=False),
        Metric("mae", lambda o, y: _sums(np.abs(_errors(o, y))), _mean, larger_is_better=False),
    )
}
"""By name. Those of two classes take the second as the positive one."""
