"""Usefulness of labels, by the uncertainty of a network's predictions (Settles' survey, 2009, section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from udfs.training import Task

__all__ = ["UNCERTAINTIES", "OutputUncertainty", "uncertainty"]

UNCERTAINTIES = ("least_confidence", "margin", "entropy")
"""Ways to tell how uncertain a prediction is."""

_TINY = 1e-12


def uncertainty(probabilities: NDArray[Any], how: str, present: NDArray[Any] | None = None) -> NDArray[np.float64]:
    """Compute how uncertain predictions are, from 0 on.

    Parameters
    ----------
    how : str
        One of :data:`UNCERTAINTIES`: 1 less the largest probability; 1 less the distance of the two largest; or the
        entropy, in nats.
    present : array of bool, shape (rows, tokens), optional
        Tokens that count; their mean is the record's. Default: all.

    Examples
    --------
    >>> chances = np.array([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]])
    >>> uncertainty(chances, "least_confidence").tolist(), uncertainty(chances, "margin").round(2).tolist()
    ([0.5, 0.0], [0.8, 0.0])
    >>> uncertainty(chances, "entropy").round(3).tolist()
    [1.03, 0.0]
    """
    chances = probabilities.astype(np.float64)
    if how == "entropy":
        values = -(chances * np.log(np.maximum(chances, _TINY))).sum(axis=-1)
    else:
        largest = np.partition(chances, -2, axis=-1)[..., -2:]
        values = 1 - largest[..., 1] if how == "least_confidence" else 1 - (largest[..., 1] - largest[..., 0])
    values = np.maximum(values, 0.0)
    if values.ndim == 1:
        return np.asarray(values, np.float64)
    counts = np.ones(values.shape, np.bool_) if present is None else present.astype(np.bool_)
    # Of padding the network may say anything, NaN too.
    counted: NDArray[np.float64] = np.where(counts, values, 0).sum(axis=1) / np.maximum(counts.sum(axis=1), 1)
    return counted


@dataclass(frozen=True, slots=True)
class OutputUncertainty:
    """Uncertainty of a network, computed from its outputs.

    Examples
    --------
    >>> from udfs.training import Task
    >>> certain = OutputUncertainty("least_confidence", Task("binary", "0/1", "probabilities", 1))
    >>> certain(np.array([[0.9], [0.5]])).round(2).tolist()
    [0.1, 0.5]
    """

    how: str  # one of UNCERTAINTIES
    task: Task  # meaning of the outputs: classes of a row, or of each token

    def __call__(self, outputs: NDArray[Any], present: NDArray[Any] | None = None) -> NDArray[np.float64]:
        """Compute a number for each row, from 0 on; NaN where an output is NaN.

        Parameters
        ----------
        outputs : array, shape (rows, ...)
            Outputs for the classes of the label; a single output is that of the second of two classes.
        present : array of bool, shape (rows, tokens), optional
            Tokens of the tags that are no padding.
        """
        if self.task.tokens is None:
            return uncertainty(self.task.probabilities(outputs.reshape(len(outputs), -1)), self.how, None)
        tokens = outputs.reshape(len(outputs), self.task.tokens, -1)
        return uncertainty(self.task.probabilities(tokens), self.how, present)
