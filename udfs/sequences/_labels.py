"""Label of a window, by the labels of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.arguments import choice_error
from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["LABELS", "label_function"]


def _last(labels: NDArray[Any]) -> NDArray[Any]:
    return labels[:, -1]


def _middle(labels: NDArray[Any]) -> NDArray[Any]:
    return labels[:, labels.shape[1] // 2]


def _majority(labels: NDArray[Any]) -> NDArray[Any]:
    """Return the most frequent label of each window; of equally frequent ones, the smallest."""
    if not len(labels):
        return labels[:, 0]
    classes = np.unique(labels)
    counts = np.stack([(labels == each).sum(axis=1) for each in classes], axis=-1)
    majority: NDArray[Any] = classes[counts.argmax(axis=-1)]
    return majority


def _mean(labels: NDArray[Any]) -> NDArray[Any]:
    mean: NDArray[Any] = labels.mean(axis=1, dtype=np.float64).astype(np.float32)
    return mean


def _max(labels: NDArray[Any]) -> NDArray[Any]:
    largest: NDArray[Any] = labels.max(axis=1)
    return largest


LABELS: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "last": _last,
    "middle": _middle,
    "majority": _majority,
    "mean": _mean,
    "max": _max,
}
"""Functions by name, of labels ``(windows, length, ...)`` to a label for each window."""


def label_function(label: str | Callable[[NDArray[Any]], NDArray[Any]]) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """Return the function of a name; a function stays.

    Raises
    ------
    InvalidArgumentError
        There is no function of that name.
    """
    if callable(label):
        return label
    if label not in LABELS:
        raise InvalidArgumentError(f"{choice_error('label', label, tuple(LABELS))} A function is allowed too")
    return LABELS[label]
