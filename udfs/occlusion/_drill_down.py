"""Adaptive drill-down: a lattice of places first, then the places around its lowest values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optimizer.occlusion import OcclusionGrid

__all__ = ["Lattice"]


@dataclass(frozen=True, slots=True)
class Lattice:
    """Lattice of stage one: every ``step``-th place along both axes, and the last one (Krypton, section 6.4.2).

    The last row and column belong to it, so that every other place lies between two of stage one.

    Examples
    --------
    >>> from optimizer.occlusion import OcclusionGrid
    >>> lattice = Lattice(OcclusionGrid((10, 10), (2, 2), (2, 2)), 2)
    >>> first = np.where(lattice.first, 0.9, np.nan)
    >>> first[2, 2] = 0.1  # the prediction needs what is there
    >>> int(lattice.second(first, 0.1).sum())
    3
    >>> round(float(lattice.filled(first)[1, 2]), 2)  # between 0.9 and 0.1
    0.5
    """

    grid: OcclusionGrid  # places of the heat map, on two axes
    step: int  # ratio of the strides of stage one and stage two

    @property
    def first(self) -> NDArray[np.bool_]:
        """Places of stage one."""
        mask = np.zeros(self.grid.shape, np.bool_)
        mask[np.ix_(self._known(0), self._known(1))] = True
        return mask

    def places(self, fraction: float) -> int:
        """Estimate the number of places of both stages, with stage two as a fraction of the heat map."""
        count = self.grid.count
        return min(count, int(self.first.sum()) + round(fraction * count))

    def second(self, heat_map: NDArray[np.floating], fraction: float) -> NDArray[np.bool_]:
        """Return the places of stage two: cells around the lowest values of stage one, up to a fraction of the map."""
        coarse = heat_map[np.ix_(self._known(0), self._known(1))]
        rows, columns = (self._cells(axis) for axis in (0, 1))
        sizes = np.outer(np.bincount(rows, minlength=coarse.shape[0]), np.bincount(columns, minlength=coarse.shape[1]))
        order = np.argsort(coarse, axis=None, kind="stable")
        before = np.cumsum(sizes.ravel()[order]) - sizes.ravel()[order]
        chosen = np.zeros(coarse.size, np.bool_)
        chosen[order[before < fraction * self.grid.count]] = True
        wanted: NDArray[np.bool_] = chosen.reshape(coarse.shape)[np.ix_(rows, columns)]
        return wanted & ~self.first

    def filled(self, heat_map: NDArray[np.floating]) -> NDArray[np.floating]:
        """Interpolate stage one's values where nothing was computed, by the pixels between the places."""
        known = [self._known(axis) for axis in (0, 1)]
        rows, columns = (self.grid.starts(axis) for axis in (0, 1))
        along = np.stack([np.interp(columns, columns[known[1]], row) for row in heat_map[np.ix_(*known)]])
        smooth = np.stack([np.interp(rows, rows[known[0]], column) for column in along.T], axis=1)
        return np.where(np.isnan(heat_map), smooth, heat_map)

    def _known(self, axis: int) -> NDArray[np.int64]:
        """Return the indices of stage one's places on an axis."""
        places = np.arange(0, self.grid.shape[axis], self.step, dtype=np.int64)
        return np.union1d(places, [self.grid.shape[axis] - 1])

    def _cells(self, axis: int) -> NDArray[np.int64]:
        """Find the nearest place of stage one for each place, in pixels; the later one of two as near."""
        starts = self.grid.starts(axis)
        known = starts[self._known(axis)]
        return np.searchsorted((known[:-1] + known[1:]) / 2, starts, side="right")
