"""Adaptive drill-down: a coarse heat map, then a fine one of its salient part (Krypton, section 6.4.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.occlusion._errors import PatchError

if TYPE_CHECKING:
    from optimizer.occlusion._grid import OcclusionGrid

__all__ = ["DrillDown", "stage_one_step", "stage_one_stride"]


@dataclass(frozen=True, slots=True)
class DrillDown:
    """Strides of both stages, and the share of the image in the second.

    Parameters
    ----------
    first, second : int
        Strides of the two stages.
    fraction : float
        Share of the image in the second stage, 0 to 1.

    Raises
    ------
    PatchError
        The fraction is not between 0 and 1, or the first stride is below the second.
    """

    first: int
    second: int
    fraction: float

    def __post_init__(self) -> None:
        _check_fraction(self.fraction)
        if not 1 <= self.second <= self.first:
            raise PatchError(f"strides {self.first} and {self.second}: 1 <= second <= first")

    @property
    def speedup(self) -> float:
        """Number of re-inferences without drill-down over that with it (equation 6.28).

        Examples
        --------
        >>> round(DrillDown(16, 4, 0.25).speedup, 2)
        3.2
        """
        return self.first**2 / (self.second**2 + self.fraction * self.first**2)


def stage_one_stride(target: float, second: int, fraction: float, extent: int) -> int:
    """Compute the first stage's stride for a target speed-up (equations 6.29 and 6.30).

    Parameters
    ----------
    target : float
        Speed-up by drill-down.
    second : int
        The second stage's stride.
    fraction : float
        Share of the image in the second stage, 0 to 1.
    extent : int
        Pixels of the image along its shorter axis.

    Returns
    -------
    int
        Stride in pixels, rounded up: the speed-up of equation 6.28 is at least the target.

    Raises
    ------
    PatchError
        No stride reaches the target; the message has the largest that one does.

    Examples
    --------
    The defaults of section 6.4.3, and those for its OCT images:

    >>> stage_one_stride(3, 4, 0.25, 224), stage_one_stride(5, 4, 0.1, 224)
    (14, 13)
    """
    _check_fraction(fraction)
    most = min(extent**2 / (second**2 + fraction * extent**2), math.inf if not fraction else 1 / fraction)
    if not 1 <= target < most:
        raise PatchError(
            f"a speed-up of {target:g} by drill-down: at least 1 and below {most:.2f}, with {fraction:.0%} of the "
            f"image in the second stage of stride {second} (equation 6.30); take a smaller fraction or a smaller target"
        )
    return max(second, math.ceil(math.sqrt(target / (1 - fraction * target)) * second))


def stage_one_step(grid: OcclusionGrid, target: float, fraction: float) -> int:
    """Compute stage one's stride over stage two's, a whole number so that both share positions (equation 6.29).

    Parameters
    ----------
    grid : OcclusionGrid
        Grid of stage two.
    target : float
        Speed-up by drill-down; 1 means without it.
    fraction : float
        Share of the heat map in stage two, 0 to 1.

    Returns
    -------
    int
        Step of stage one, in positions of stage two.

    Raises
    ------
    PatchError
        As :func:`stage_one_stride`, for the shorter side of the grid's region.

    Examples
    --------
    >>> from optimizer.occlusion import OcclusionGrid
    >>> stage_one_step(OcclusionGrid((224, 224), (16, 16), (4, 4)), 3, 0.25)  # a stride of 14 becomes one of 16
    4
    """
    if target == 1:
        return 1
    stride, extent = grid.stride[0], min(stop - start for start, stop in grid.ranges)
    return math.ceil(stage_one_stride(target, stride, fraction, extent) / stride)


def _check_fraction(fraction: float) -> None:
    if not 0 <= fraction <= 1:
        raise PatchError(f"a drill-down fraction of {fraction!r}: from 0 to 1")
