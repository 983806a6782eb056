"""Order of vectors of sum zero with a small sum of every prefix (Sevastyanov; Grinberg and Sevastyanov)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["rearranged"]

_ZERO = 1e-9


def rearranged(vectors: NDArray[np.float64]) -> NDArray[np.intp]:
    """Order vectors so that the sum of every prefix has a norm of at most ``d * max |v|``, in any norm.

    The order is built from its end. With ``k`` vectors remaining, take weights between 0 and 1 that add up to
    ``k - 1 - d`` and give a weighted sum of zero, and move them to a vertex of the set of such weights. At a vertex at
    most ``d + 1`` weights are neither 0 nor 1, so one weight is 0: its vector comes last. The sum of the other
    ``k - 1`` vectors then equals their sum weighted by 1 minus their weights, and those factors add up to ``d``.

    Parameters
    ----------
    vectors : array of float, n x d
        Vectors of sum zero.

    Returns
    -------
    array of int, n
        Row numbers, in order.

    Examples
    --------
    >>> order = rearranged(np.array([[3.0], [3.0], [-2.0], [-2.0], [-2.0]]))
    >>> bool(np.abs(np.cumsum(np.array([3, 3, -2, -2, -2])[order])).max() <= 3)
    True
    """
    count, dimension = vectors.shape
    if not vectors.any():
        return np.arange(count)
    # One more column of ones, so that moving the weights keeps their sum.
    rows = np.column_stack([vectors / np.abs(vectors).max(initial=np.finfo(float).tiny), np.ones(count)])
    remaining = np.arange(count)
    weights = np.full(count, max(0, count - 1 - dimension) / max(1, count))
    last: list[int] = []
    while len(remaining) > dimension:
        weights = _vertex(weights, rows[remaining])
        place = int(weights.argmin())
        last.append(int(remaining[place]))
        remaining, weights = np.delete(remaining, place), np.delete(weights, place)
        excess = len(remaining) - dimension
        weights = weights * ((excess - 1) / excess if excess > 0 else 0.0)
    return np.array([*remaining, *reversed(last)], dtype=np.intp)


def _vertex(weights: NDArray[np.float64], rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Move weights within [0, 1], at the same weighted sum, until at most as many as columns are neither 0 nor 1."""
    weights = weights.copy()
    most = rows.shape[1]
    while True:
        between = np.flatnonzero((weights > _ZERO) & (weights < 1 - _ZERO))
        if len(between) <= most:
            break
        moved = between[: most + 1]
        # One more weight than equations, so some direction keeps the weighted sum.
        direction = np.linalg.svd(rows[moved].T)[2][-1]
        up, down = direction > _ZERO, direction < -_ZERO
        to_one = ((1 - weights[moved][up]) / direction[up]).min(initial=np.inf)
        to_zero = (weights[moved][down] / -direction[down]).min(initial=np.inf)
        weights[moved] = np.clip(weights[moved] + min(to_one, to_zero) * direction, 0, 1)
    return np.where(weights < _ZERO, 0.0, np.where(weights > 1 - _ZERO, 1.0, weights))
