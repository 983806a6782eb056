"""Error of a prediction, and of the constant that a network has to beat: the mean, or the majority class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from udfs.training import Rows, Task

__all__ = ["baseline_error", "error_of"]


def error_of(task: Task, outputs: NDArray[Any], rows: Rows) -> float | None:
    """Compute the share of wrong classes, or the root mean squared error of values.

    Parameters
    ----------
    task : Task
        Meaning of the labels and outputs.
    outputs : array, shape (rows, ...)
        Outputs of a network.
    rows : Rows
        Rows with labels.

    Returns
    -------
    float or None
        ``None`` for a task whose rows have several predictions, or that states none.

    Examples
    --------
    >>> from udfs.shards import Tensors
    >>> from udfs.training import Task
    >>> rows = Tensors((), (np.array([1, 0]),), 2)
    >>> error_of(Task("binary", "0/1", "logits", 1), np.array([[0.3], [2.0]]), rows)
    0.5
    """
    if not _is_scalar(task):
        return None
    predicted = task.predictions(outputs.reshape(len(outputs), -1))
    return _error(task, predicted, rows)


def baseline_error(task: Task, train: Rows, scored: Rows) -> float | None:
    """Compute the error of the mean of the training labels, or of their most frequent class.

    Examples
    --------
    >>> from udfs.shards import Tensors
    >>> from udfs.training import Task
    >>> train, scored = Tensors((), (np.array([1.0, 3.0]),), 2), Tensors((), (np.array([5.0]),), 1)
    >>> baseline_error(Task("regression", "values", "values", 1), train, scored)
    3.0
    """
    if not _is_scalar(task):
        return None
    labels, weights = _labels(task, train), _weights(train)
    if task.kind == "regression":
        constant = float(np.average(labels, weights=weights))
    else:
        classes, places = np.unique(labels, return_inverse=True)
        constant = float(classes[np.bincount(places.reshape(-1), weights=weights).argmax()])
    return _error(task, np.full(scored.rows, constant), scored)


def _error(task: Task, predicted: NDArray[np.float64], rows: Rows) -> float:
    labels, weights = _labels(task, rows), _weights(rows)
    if task.kind == "regression":
        return float(np.sqrt(np.average((predicted - labels) ** 2, weights=weights)))
    return float(np.average(predicted != labels, weights=weights))


def _is_scalar(task: Task) -> bool:
    if task.kind == "regression":
        return not task.is_vector
    return task.kind in {"binary", "multiclass"} and task.tokens is None


def _labels(task: Task, rows: Rows) -> NDArray[np.float64]:
    """Return the labels in the encoding of the predictions."""
    labels = rows.labels[0].reshape(rows.rows, -1)
    return np.asarray(labels.argmax(axis=1) if task.labels == "one-hot" else labels[:, 0], np.float64)


def _weights(rows: Rows) -> NDArray[np.float64]:
    return np.ones(rows.rows) if rows.weights is None else rows.weights.astype(np.float64)
