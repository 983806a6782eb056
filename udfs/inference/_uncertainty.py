"""How useful the label of a record would be, by what a network predicts for it (Settles' survey, 2009, section 3.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["UNCERTAINTIES", "uncertainty"]

UNCERTAINTIES = ("least_confidence", "margin", "entropy")
"""Ways to tell how uncertain a prediction is."""

_TINY = 1e-12


def uncertainty(probabilities: NDArray[Any], how: str, present: NDArray[Any] | None = None) -> NDArray[np.float64]:
    """Compute how uncertain predictions are, from 0 on.

    Parameters
    ----------
    probabilities : array, shape (rows, classes) or (rows, tokens, classes)
    how : str
        One of :data:`UNCERTAINTIES`: 1 less the largest probability; 1 less the distance of the two largest; or the
        entropy, in nats.
    present : array of bool, shape (rows, tokens), optional
        Tokens that count; their mean is the record's. Default: all.

    Returns
    -------
    array of float64, shape (rows,)

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
    weights = np.ones(values.shape) if present is None else present.astype(np.float64)
    counted: NDArray[np.float64] = (values * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)
    return counted
