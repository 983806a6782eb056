"""An order of vectors of sum zero in which every prefix has a small sum (Sevastyanov; Grinberg and Sevastyanov)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["rearranged"]

_ZERO = 1e-9


def rearranged(vectors: NDArray[np.float64]) -> NDArray[np.intp]:
    """Order vectors so that every prefix of them has a sum of norm ``d * max |v|`` at most, in any norm.

    Backwards: with ``k`` vectors left, take weights between 0 and 1 which add up to ``k - 1 - d`` and weigh the vectors
    to a sum of zero, and move them to a vertex of all such. There at most ``d + 1`` are neither 0 nor 1, so one is 0:
    that vector comes last. The sum of the other ``k - 1`` then is their sum weighted by what they lack of 1, which is
    ``d`` in all.

    Parameters
    ----------
    vectors : array of float, n x d
        Their sum is zero.

    Returns
    -------
    array of int, n

    Examples
    --------
    >>> order = rearranged(np.array([[3.0], [3.0], [-2.0], [-2.0], [-2.0]]))
    >>> bool(np.abs(np.cumsum(np.array([3, 3, -2, -2, -2])[order])).max() <= 3)
    True
    """
    count, dimension = vectors.shape
    if not vectors.any():
        return np.arange(count)
    # One row more keeps the sum of the weights.
    rows = np.column_stack([vectors / np.abs(vectors).max(initial=np.finfo(float).tiny), np.ones(count)])
    left = np.arange(count)
    weights = np.full(count, max(0, count - 1 - dimension) / max(1, count))
    last: list[int] = []
    while len(left) > dimension:
        weights = _vertex(weights, rows[left])
        place = int(weights.argmin())
        last.append(int(left[place]))
        left, weights = np.delete(left, place), np.delete(weights, place)
        above = len(left) - dimension
        weights = weights * ((above - 1) / above if above > 0 else 0.0)
    return np.array([*left, *reversed(last)], dtype=np.intp)


def _vertex(weights: NDArray[np.float64], rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Move weights within [0, 1] until no more lie strictly between than there are rows; what they weigh stays."""
    weights = weights.copy()
    most = rows.shape[1]
    while True:
        between = np.flatnonzero((weights > _ZERO) & (weights < 1 - _ZERO))
        if len(between) <= most:
            break
        some = between[: most + 1]
        # As many columns as rows and one more: there is a direction in which nothing that is weighed changes.
        direction = np.linalg.svd(rows[some].T)[2][-1]
        up, down = direction > _ZERO, direction < -_ZERO
        to_one = ((1 - weights[some][up]) / direction[up]).min(initial=np.inf)
        to_zero = (weights[some][down] / -direction[down]).min(initial=np.inf)
        weights[some] = np.clip(weights[some] + min(to_one, to_zero) * direction, 0, 1)
    return np.where(weights < _ZERO, 0.0, np.where(weights > 1 - _ZERO, 1.0, weights))
