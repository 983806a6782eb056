"""Area under the ROC curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["area"]


def area(scores: NDArray[np.float64], truth: NDArray[np.bool_], weights: NDArray[np.float64] | None = None) -> float:
    """Compute the area under the ROC curve: the share of correctly ordered pairs, ties one half.

    With weights a pair counts by their product. NaN if all rows have one class.

    Examples
    --------
    >>> area(np.array([0.1, 0.4, 0.4, 0.9]), np.array([False, False, True, True]))
    0.875
    """
    if weights is not None:
        return _weighted_area(scores, truth, weights)
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    positives, negatives = int(truth.sum()), int((~truth).sum())
    if not positives or not negatives:
        return float("nan")
    return float((ranks[truth].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def _weighted_area(scores: NDArray[np.float64], truth: NDArray[np.bool_], weights: NDArray[np.float64]) -> float:
    _, place = np.unique(scores, return_inverse=True)
    positive, negative = (np.bincount(place, weights * chosen) for chosen in (truth, ~truth))
    pairs = positive.sum() * negative.sum()
    right = positive * (np.cumsum(negative) - negative / 2)
    return float(right.sum() / pairs) if pairs else float("nan")
