"""Metrics over partitioned rows: what each shard adds, and the number that comes of the sum."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optimizer.errors import nearest
from udfs.metrics._areas import area
from udfs.metrics._averages import AVERAGED, averaged_metric
from udfs.metrics._metric import Metric, MetricError
from udfs.metrics._metric_objects import object_metric
from udfs.metrics._tokens import ENTITY_F1, TOKEN_ACCURACY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["METRICS", "is_batch_mean", "metric"]

_TOP = 5

# Names of parameters that show the order of a function's arguments.
_LABELS = frozenset({"y_true", "labels", "label", "target", "targets", "truth"})
_OUTPUTS = frozenset({"y_pred", "y_score", "y_proba", "y_prob", "outputs", "output", "preds", "predictions", "scores"})

# Directions of the metrics of scikit-learn and Keras that a user's function may be named after.
_KNOWN_DIRECTIONS = {
    **dict.fromkeys(("accuracy_score", "balanced_accuracy_score", "f1_score", "precision_score", "recall_score"), True),
    **dict.fromkeys(("roc_auc_score", "average_precision_score", "r2_score", "explained_variance_score"), True),
    **dict.fromkeys(("mean_squared_error", "root_mean_squared_error", "mean_absolute_error", "log_loss"), False),
    **dict.fromkeys(("mean_absolute_percentage_error", "median_absolute_error", "max_error"), False),
}

Weights = NDArray[np.float64] | None


def metric(
    wanted: str | Metric | Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]], *, maximize: bool | None = None
) -> Metric:
    """Find or make a metric.

    Parameters
    ----------
    wanted : str, Metric, callable, keras.metrics.Metric or torchmetrics.Metric
        Name of :data:`METRICS`; a metric object of Keras or torchmetrics, which gets outputs and labels as they are,
        under its own name; or a function of outputs and labels, both arrays of a batch. A function whose parameters are
        named ``y_true, y_pred`` gets labels first. The function returns one number for each row, and the metric is
        their mean over all rows, weighted if the rows have weights; or one number for the batch, and the metric is the
        mean over batches, weighted by their numbers of rows. The metric has the function's name.
    maximize : bool, optional
        Whether larger values are better. By default a function named after a known metric has its direction; a search
        by another function needs ``mode=``.

    Returns
    -------
    Metric
        The metric.

    Raises
    ------
    MetricError
        No metric has the name, ``wanted`` is a class, or the function has no name.

    Examples
    --------
    >>> accuracy = metric("accuracy")
    >>> accuracy.result(accuracy.part(np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 0])))
    0.5
    """
    made = wanted if isinstance(wanted, Metric) else object_metric(wanted) or _other_metric(wanted)
    return made if maximize is None else replace(made, larger_is_better=maximize)


def _other_metric(wanted: Any) -> Metric:
    if callable(wanted):
        return _function_metric(wanted)
    if wanted not in METRICS:
        raise MetricError(
            f"metric must be a function or one of {', '.join(METRICS)}, got {wanted!r}{nearest(wanted, METRICS)}"
        )
    return METRICS[wanted]


def _function_metric(function: Callable[..., Any]) -> Metric:
    name = getattr(function, "__name__", None) or getattr(getattr(function, "func", None), "__name__", None)
    if isinstance(function, type):
        raise MetricError(f"metric must be a function or an object, got the class {name}. Write {name}()")
    if name is None:
        raise MetricError(
            f"metric must be a function with a name, got {function!r}. Write a function of outputs and labels that "
            "calls it"
        )
    larger = METRICS[name].larger_is_better if name in METRICS else _KNOWN_DIRECTIONS.get(name)
    labels_first = _takes_labels_first(function)

    def part(outputs: NDArray[Any], labels: NDArray[Any], weights: Weights = None) -> NDArray[np.float64]:
        returned = function(labels, outputs) if labels_first else function(outputs, labels)
        if returned is None:
            raise MetricError(f"function {name} must return one number a row or a batch, got None.")
        values = np.asarray(returned, np.float64)
        if values.ndim == 0 and len(outputs) and weights is None:
            # A number of a batch counts by the batch's rows. The third sum marks a mean over batches.
            return np.array([float(values) * len(outputs), len(outputs), 1.0])
        if values.ndim == 0 or len(values) != len(outputs):
            raise MetricError(
                f"a metric's function must return one number a row{'' if weights is not None else ' or a batch'}, got "
                f"shape {values.shape} for {len(outputs)} rows"
            )
        return _sums(values, weights)

    return Metric(name, part, _function_mean, larger_is_better=larger, weighted=part)


def _takes_labels_first(function: Callable[..., Any]) -> bool:
    """Return whether a function's parameters are named as labels before outputs, like those of scikit-learn."""
    try:
        names = list(inspect.signature(function).parameters)[:2]
    except (TypeError, ValueError):
        return False
    return len(names) > 1 and names[0] in _LABELS and names[1] in _OUTPUTS


def is_batch_mean(metric: Metric, part: NDArray[np.float64]) -> bool:
    """Return whether a contribution comes from a function that returned one number for its batch."""
    return metric.result is _function_mean and len(part) > 2


def _function_mean(sums: NDArray[np.float64]) -> float:
    """Compute the mean of a function's numbers; is_batch_mean recognises metrics of functions by this result."""
    return _mean(sums)


def _sums(values: NDArray[np.float64], weights: Weights = None) -> NDArray[np.float64]:
    if weights is None:
        return np.array([values.sum(), values.size])
    if len(values) != len(weights):
        raise MetricError(f"{len(values)} numbers for {len(weights)} rows: one a row")
    flat = values.reshape(len(values), -1)
    return np.array([(flat * weights[:, None]).sum(), weights.sum() * flat.shape[1]])


def _mean(sums: NDArray[np.float64]) -> float:
    return float(sums[0] / sums[1]) if sums[1] else float("nan")


def _binary(outputs: NDArray[Any]) -> NDArray[Any]:
    """Return the score of the second of two classes; one output is that score already."""
    flat: NDArray[Any] = outputs.reshape(len(outputs), -1)
    if flat.shape[1] == 1:
        return flat[:, 0]
    if flat.shape[1] == 2:  # two classes
        margin: NDArray[Any] = flat[:, 1] - flat[:, 0]
        return margin
    raise MetricError(f"a metric of two classes, and the network gives {flat.shape[1]} outputs")


def _check_rows(outputs: NDArray[Any], labels: NDArray[Any]) -> None:
    """Raise MetricError for labels and outputs that are classes of tokens."""
    several = labels.ndim > 1 and labels[:1].size > 1
    if several and outputs.ndim == labels.ndim + 1 and outputs.shape[-1] > 1:
        raise MetricError(
            f"labels of shape {labels.shape} and outputs of shape {outputs.shape} are of a class a token, and this "
            "metric is of a class a row: use token_accuracy or entity_f1"
        )


def _classes(outputs: NDArray[Any], labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    _check_rows(outputs, labels)
    flat = outputs.reshape(len(outputs), -1)
    known = labels.reshape(len(labels), -1)
    # Labels as wide as the outputs are probabilities of the classes.
    truth = known.argmax(axis=1) if known.shape[1] > 1 else known[:, 0]
    return flat.argmax(axis=1) if flat.shape[1] > 1 else flat[:, 0] > 0, truth


def _accuracy(outputs: NDArray[Any], labels: NDArray[Any], weights: Weights = None) -> NDArray[np.float64]:
    predicted, truth = _classes(outputs, labels)
    return _sums((predicted == truth).astype(np.float64), weights)


def _top(outputs: NDArray[Any], labels: NDArray[Any], weights: Weights = None) -> NDArray[np.float64]:
    flat = outputs.reshape(len(outputs), -1)
    best = np.argsort(-flat, axis=1, kind="stable")[:, :_TOP]
    return _sums((best == labels.reshape(-1, 1)).any(axis=1).astype(np.float64), weights)


def _confusion(outputs: NDArray[Any], labels: NDArray[Any], weights: Weights = None) -> NDArray[np.float64]:
    _check_rows(outputs, labels)
    predicted, truth = _binary(outputs) > 0, labels.reshape(-1).astype(bool)
    cells = (predicted & truth, predicted & ~truth, ~predicted & truth)
    return np.array([cell.sum() if weights is None else weights[cell].sum() for cell in cells], np.float64)


def _errors(outputs: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.float64]:
    errors: NDArray[np.float64] = outputs.reshape(len(outputs), -1).astype(np.float64) - labels.reshape(len(labels), -1)
    return errors


def _squared(outputs: NDArray[Any], labels: NDArray[Any], weights: Weights = None) -> NDArray[np.float64]:
    return _sums(_errors(outputs, labels) ** 2, weights)


def _absolute(outputs: NDArray[Any], labels: NDArray[Any], weights: Weights = None) -> NDArray[np.float64]:
    return _sums(np.abs(_errors(outputs, labels)), weights)


def _scores(outputs: NDArray[Any], labels: NDArray[Any], weights: Weights = None) -> NDArray[np.float64]:
    columns = [_binary(outputs).astype(np.float64), labels.reshape(-1).astype(np.float64)]
    return np.stack(columns if weights is None else [*columns, weights], axis=1)


def _area(table: NDArray[np.float64]) -> float:
    # With weights in a third column.
    return area(table[:, 0], table[:, 1] > 0, table[:, 2] if table.shape[1] > 2 else None)


def _share(numerator: float, denominator: float) -> float:
    return float(numerator / denominator) if denominator else 0.0


METRICS: Mapping[str, Metric] = {
    name: Metric(name, part, result, larger_is_better=larger, margins=larger and name != "auc", weighted=part)
    for name, part, result, larger in (
        ("accuracy", _accuracy, _mean, True),
        ("top_5_accuracy", _top, _mean, True),
        ("precision", _confusion, lambda t: _share(t[0], t[0] + t[1]), True),
        ("recall", _confusion, lambda t: _share(t[0], t[0] + t[2]), True),
        ("f1", _confusion, lambda t: _share(2 * t[0], 2 * t[0] + t[1] + t[2]), True),
        ("auc", _scores, _area, True),
        ("mse", _squared, _mean, False),
        ("rmse", _squared, lambda t: _mean(t) ** 0.5, False),
        ("mae", _absolute, _mean, False),
    )
} | {
    metric.name: metric
    for metric in (
        *(averaged_metric(*parts, labels=False) for parts in AVERAGED.values()),
        TOKEN_ACCURACY,
        ENTITY_F1,
    )
}
"""By name. Those of two classes take the second as the positive one; those of tokens are of taggers."""
