"""Order of the places of a heat map, from coarse to fine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["coarse_to_fine", "nearest_known"]

# Most places of the first level: the first news comes soon, also of a large network.
_FIRST = 4


def coarse_to_fine(places: NDArray[np.bool_], first: int = _FIRST) -> Iterator[NDArray[np.bool_]]:
    """Split places into levels: a coarse lattice first, then the additional places of lattices of half the stride.

    The last level has about three quarters of a plane, so that its batches are nearly as full as those of all places.

    Parameters
    ----------
    first : int
        Most places of the coarsest lattice over the whole heat map. Default 4.

    Yields
    ------
    array of bool, of the heat map's shape
        Disjoint, non-empty levels, whose union is `places`.

    Examples
    --------
    >>> [int(level.sum()) for level in coarse_to_fine(np.ones((53, 53), np.bool_))]
    [4, 12, 33, 147, 533, 2080]
    """
    stride = 1
    while math.prod(-(-extent // stride) for extent in places.shape) > first:
        stride *= 2
    remaining = places.copy()
    while stride:
        on_lattice = np.zeros(places.shape, np.bool_)
        on_lattice[(slice(None, None, stride),) * places.ndim] = True
        level = remaining & on_lattice
        if level.any():
            yield level
        remaining &= ~on_lattice
        stride //= 2


def nearest_known(heat_map: NDArray[np.float32]) -> NDArray[np.float32]:
    """Fill an incomplete heat map for display: each place gets the value of the nearest coarser one.

    Parameters
    ----------
    heat_map : array of float32
        Heat map computed from coarse to fine, with NaN for missing places.

    Returns
    -------
    array of float32
        Filled heat map; NaN where the coarsest lattice is not computed. Computed values stay unchanged.

    Examples
    --------
    >>> nearest_known(np.array([1.0, np.nan, np.nan, np.nan, 5.0, 6.0], np.float32)).tolist()
    [1.0, 1.0, 5.0, 5.0, 5.0, 6.0]
    """
    filled = np.full(heat_map.shape, np.nan, np.float32)
    stride = 1 << max(heat_map.shape).bit_length()
    while stride:
        coarse = heat_map[(slice(None, None, stride),) * heat_map.ndim]
        nearest = (
            np.minimum((np.arange(extent) + stride // 2) // stride, known - 1)
            for extent, known in zip(heat_map.shape, coarse.shape, strict=True)
        )
        spread = coarse[np.ix_(*nearest)]
        filled = np.where(np.isnan(spread), filled, spread)
        stride //= 2
    return filled
