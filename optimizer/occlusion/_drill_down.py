"""Adaptive drill-down: a coarse heat map first, the fine one where it matters (Krypton, section 6.4.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._errors import PatchError

if TYPE_CHECKING:
    from ._grid import OcclusionGrid

__all__ = ["DrillDown", "stage_one_step", "stage_one_stride"]


@dataclass(frozen=True, slots=True)
class DrillDown:
    """Two strides and the share of the image that the finer one is for.

    Parameters
    ----------
    first, second : int
        Strides of the two stages.
    fraction : float
        Of the image, in the second stage.

    Raises
    ------
    PatchError
        A fraction that is none, or a first stride below the second.
    """

    first: int
    second: int
    fraction: float

    def __post_init__(self) -> None:
        _check_fraction(self.fraction)
        if not 1 <= self.second <= self.first:
            raise PatchError(f"strides {self.first} and {self.second}: the first stage has the larger, from 1 on")

    @property
    def speed_up(self) -> float:
        """Re-inferences without drill-down over those with it (equation 6.28).

        Examples
        --------
        >>> round(DrillDown(16, 4, 0.25).speed_up, 2)
        3.2
        """
        return self.first**2 / (self.second**2 + self.fraction * self.first**2)


def stage_one_stride(target: float, second: int, fraction: float, extent: int) -> int:
    """The first stage's stride for a wanted speed-up (equations 6.29 and 6.30).

    Parameters
    ----------
    target : float
        Speed-up by drill-down.
    second : int
        The second stage's stride.
    fraction : float
        Of the image, in the second stage.
    extent : int
        Of the image, along its shorter axis.

    Returns
    -------
    int
        Rounded up: at least the target is reached, as equation 6.28 counts.

    Raises
    ------
    PatchError
        A target that no stride reaches; the message has what would do.

    Examples
    --------
    The defaults of section 6.4.3, and of its OCT images:

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
    """Stage one's stride over stage two's: a whole number, for both stages share places (Krypton, equation 6.29).

    Parameters
    ----------
    grid : OcclusionGrid
        Of stage two.
    target : float
        Speed-up by drill-down; 1 is without.
    fraction : float
        Of the heat map, in stage two.

    Raises
    ------
    PatchError
        As :func:`stage_one_stride`, for the shorter side of what the patch stays in.

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
