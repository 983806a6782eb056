"""Isotonic regression and interpolation of measured points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["at_each_batch", "never_falling"]


def never_falling(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nearest non-decreasing sequence in least squares (pool adjacent violators).

    Examples
    --------
    >>> never_falling(np.array([1.0, 3.0, 2.0, 5.0])).tolist()
    [1.0, 2.5, 2.5, 5.0]
    """
    pools: list[tuple[float, int]] = []
    for value in values.tolist():
        pool = (value, 1)
        while pools and pools[-1][0] > pool[0]:
            mean, count = pools.pop()
            total = count + pool[1]
            pool = ((mean * count + pool[0] * pool[1]) / total, total)
        pools.append(pool)
    return np.repeat([mean for mean, _ in pools], [count for _, count in pools]).astype(np.float64)


def at_each_batch(points: Mapping[int, float], largest: int, *, fitted: bool = False) -> NDArray[np.float64]:
    """Interpolate from batch 0, with value 0, to the largest; constant beyond the last point."""
    batches = np.array(sorted(points))
    values = np.array([points[batch] for batch in batches.tolist()], np.float64)
    read = np.interp(np.arange(1, largest + 1), batches, never_falling(values) if fitted else values)
    read = np.concatenate([[0.0], read])
    read.flags.writeable = False
    return read
