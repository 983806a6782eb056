"""Adaptive drill-down over a heat map: which places come first, which of the others matter, what the rest gets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Lattice"]


@dataclass(frozen=True, slots=True)
class Lattice:
    """Every ``step``-th place of a heat map along both axes: stage one (Krypton, section 6.4.2).

    Parameters
    ----------
    shape : tuple of int
        Of the heat map.
    step : int
        Stage one's stride over stage two's.

    Examples
    --------
    >>> lattice = Lattice((5, 5), 2)
    >>> first = np.where(lattice.first, 0.9, np.nan)
    >>> first[2, 2] = 0.1  # the prediction needs what is there
    >>> int(lattice.second(first, 0.1).sum())
    3
    >>> round(float(lattice.filled(first)[1, 2]), 2)  # between 0.9 and 0.1
    0.5
    """

    shape: tuple[int, int]
    step: int

    @property
    def first(self) -> NDArray[np.bool_]:
        """Places of stage one."""
        mask = np.zeros(self.shape, np.bool_)
        mask[:: self.step, :: self.step] = True
        return mask

    def places(self, fraction: float) -> int:
        """About how many places both stages have together.

        Parameters
        ----------
        fraction : float
            Of the heat map, in stage two.
        """
        count = math.prod(self.shape)
        return min(count, int(self.first.sum()) + round(fraction * count))

    def second(self, heat_map: NDArray[np.floating], fraction: float) -> NDArray[np.bool_]:
        """Places of stage two: around those of stage one where the value is lowest, which are computed already.

        Parameters
        ----------
        heat_map : array of float
            With stage one's values.
        fraction : float
            Of the heat map, in stage two: as many whole cells as it takes.
        """
        coarse = heat_map[:: self.step, :: self.step]
        rows, columns = (self._cells(axis, coarse.shape[axis]) for axis in (0, 1))
        sizes = np.outer(np.bincount(rows, minlength=coarse.shape[0]), np.bincount(columns, minlength=coarse.shape[1]))
        order = np.argsort(coarse, axis=None, kind="stable")
        before = np.cumsum(sizes.ravel()[order]) - sizes.ravel()[order]
        chosen = np.zeros(coarse.size, np.bool_)
        chosen[order[before < fraction * math.prod(self.shape)]] = True
        wanted: NDArray[np.bool_] = chosen.reshape(coarse.shape)[np.ix_(rows, columns)]
        return wanted & ~self.first

    def filled(self, heat_map: NDArray[np.floating]) -> NDArray[np.floating]:
        """Interpolate stage one's values where nothing was computed."""
        coarse = heat_map[:: self.step, :: self.step]
        known = [np.arange(0, extent, self.step) for extent in self.shape]
        along = np.stack([np.interp(np.arange(self.shape[1]), known[1], row) for row in coarse])
        smooth = np.stack([np.interp(np.arange(self.shape[0]), known[0], column) for column in along.T], axis=1)
        return np.where(np.isnan(heat_map), smooth, heat_map)

    def _cells(self, axis: int, count: int) -> NDArray[np.int64]:
        """Find the nearest place of stage one for each place."""
        return np.minimum((np.arange(self.shape[axis]) + self.step // 2) // self.step, count - 1)
