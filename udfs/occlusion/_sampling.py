"""Sampling of heat map places that are computed exactly until the others are estimated well enough."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from udfs.occlusion._gaussian_process import Surface
from udfs.occlusion._similarity import averages, deviations

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from optimizer.occlusion import OcclusionGrid

__all__ = ["COMPARABLE", "SMALLEST_SAMPLED", "Sampling", "coordinates", "spread_places"]

COMPARABLE = 3
"""The fewest places along an axis with which heat maps can be compared."""

# Share of the places that come first, and the fewest of them.
_FIRST = 0.05
_FEWEST = 16

# On smaller maps a surface through so few values knows too little: one of 7 x 7 was estimated at 0.94 and was at 0.53.
SMALLEST_SAMPLED = round(_FEWEST / _FIRST)

# How many more each round computes, as a share of those known.
_MORE = 0.3

# From this share of all places on, the rest is computed too: little would be saved.
_MOST = 0.6

# The time of a surface grows with the cube of the known places.
_MOST_KNOWN = 2500

# Error of the estimate: without it, half of the heat maps would miss the target.
_MARGIN = 0.02

_DRAWS = 16

# SSIM's constant: a share of the span of values, below which a window counts as flat.
_FLAT = 0.03
_TINY = 1e-300


def coordinates(grid: OcclusionGrid) -> list[NDArray[np.float64]]:
    """Compute the positions of a grid's places along each axis, in strides."""
    return [grid.starts(axis) / grid.stride[axis] for axis in range(len(grid.shape))]


def spread_places(shape: Sequence[int], share: float = _FIRST, *, seed: int = 0) -> NDArray[np.bool_]:
    """Draw a sample of places of a heat map: one from each cell of a coarse grid.

    Parameters
    ----------
    share : float
        Approximate share of its places; at least 16 places, or all.

    Examples
    --------
    >>> spread_places((53, 53)).shape, int(spread_places((53, 53)).sum()), int(spread_places((3, 3)).sum())
    ((53, 53), 196, 9)
    """
    side, chosen, random = _side(shape, share), np.zeros(shape, np.bool_), np.random.default_rng(seed)
    for cell in np.ndindex(*(-(-extent // side) for extent in shape)):
        first = [at * side for at in cell]
        sizes = [min(side, extent - at) for at, extent in zip(first, shape, strict=True)]
        chosen[tuple(at + int(random.integers(size)) for at, size in zip(first, sizes, strict=True))] = True
    return chosen


@dataclass(slots=True)
class Sampling:
    """Rounds of places for heat maps of one image, computed exactly; made anew for each. A :class:`Rounds`.

    The first round is spread over the map at uneven distances, for a network's strides repeat in it. After each round,
    surfaces through the known values estimate the SSIM of their most likely maps; while that is too low, the next round
    has the places that would raise it most. From three fifths of all places on, the rest is computed too, and the heat
    maps are exact; so are those of fewer than 320 places.

    Examples
    --------
    >>> from optimizer.occlusion import OcclusionGrid
    >>> grid = OcclusionGrid((96, 96), (16, 16), (2, 2))
    >>> rows, columns = np.indices(grid.shape)
    >>> hill = np.exp(-((rows - 20) ** 2 + (columns - 12) ** 2) / 60)
    >>> values, sampling = np.full((1, *grid.shape), np.nan), Sampling(grid, 0.9)
    >>> for places in sampling.rounds(values):
    ...     values[0, places] = hill[places]
    >>> bool(sampling.likeness[0] > 0.9), bool(np.isnan(values).mean() > 0.8)
    (True, True)
    >>> bool(np.abs(sampling.filled(values)[0] - hill).mean() < 0.02)
    True
    """

    grid: OcclusionGrid  # places of the heat map
    target: float  # SSIM to reach, below 1
    # Estimated SSIM by heat map after the last round, or 1 where all places are known.
    likeness: tuple[float, ...] = field(default=(), init=False)
    _surfaces: list[Surface] = field(default_factory=list, init=False)

    def rounds(self, values: NDArray[np.floating]) -> Iterator[NDArray[np.bool_]]:
        """Yield the places to compute next; the caller writes their values before it asks for more."""
        shape, random = self.grid.shape, np.random.default_rng(0)
        wanted = spread_places(shape)
        known = np.zeros(shape, np.bool_)
        most = min(_MOST * math.prod(shape), _MOST_KNOWN)
        is_large = min(shape) >= COMPARABLE and math.prod(shape) >= SMALLEST_SAMPLED
        while is_large and known.sum() + wanted.sum() <= most:
            yield wanted
            known |= wanted
            if not np.isfinite(values[:, known]).all():
                break  # an overflow is no surface
            self._surfaces = [Surface.through(mapped, coordinates(self.grid)) for mapped in values]
            self.likeness = tuple(surface.likeness(surface.mean) for surface in self._surfaces)
            if min(self.likeness) >= min(self.target + _MARGIN, 1.0):
                return
            worst = self._surfaces[int(np.argmin(self.likeness))]
            wanted = _uncertain(worst, known, round(_MORE * int(known.sum())), random)
        yield ~known
        self._surfaces, self.likeness = [], (1.0,) * len(values)

    def filled(self, values: NDArray[np.floating]) -> NDArray[np.floating]:
        """Fill in the most likely values at the places that no round computed."""
        if not self._surfaces:
            return values
        return np.stack([surface.mean for surface in self._surfaces])

    def drawn(self, values: NDArray[np.floating], random: np.random.Generator) -> NDArray[np.floating]:
        """Draw heat maps that agree with the known values."""
        if not self._surfaces:
            return values
        return np.stack([surface.draw(random) for surface in self._surfaces])


def _side(shape: Sequence[int], share: float) -> int:
    """Compute the side of the cells of which each has one place of the sample."""
    side = max(1, int(np.rint(share ** (-1 / len(shape)))))
    while side > 1 and math.prod(-(-extent // side) for extent in shape) < _FEWEST:
        side -= 1
    return side


def _uncertain(
    surface: Surface, known: NDArray[np.bool_], count: int, random: np.random.Generator
) -> NDArray[np.bool_]:
    """Choose the places whose uncertainty is largest relative to the contrast around them, where SSIM loses most.

    Neighbours inform each other, so two of them are chosen only after all other places.
    """
    variance = np.mean([(surface.draw(random) - surface.mean) ** 2 for _ in range(_DRAWS)], axis=0)
    flat = (_FLAT * float(np.ptp(surface.mean))) ** 2 + _TINY
    loss = averages(variance / (deviations(surface.mean) ** 2 + averages(variance) + flat), 3)  # draws are few
    loss = np.where(known, -1.0, loss * random.uniform(0.9, 1.0, loss.shape))
    order = np.argsort(-loss, axis=None)
    chosen, occupied = np.zeros(known.shape, np.bool_), known.copy()
    for is_apart in (True, False):
        for at in order:
            if chosen.sum() >= count:
                return chosen
            place = tuple(int(index) for index in np.unravel_index(at, known.shape))
            around = tuple(slice(max(0, index - 1), index + 2) for index in place)
            if not (occupied[around].any() if is_apart else occupied[place]):
                chosen[place] = occupied[place] = True
    return chosen
