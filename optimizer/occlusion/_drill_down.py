"""Adaptive drill-down: a coarse heat map, then a fine one of its salient part (Krypton, section 6.4.2)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from optimizer.occlusion._errors import PatchError

if TYPE_CHECKING:
    from optimizer.occlusion._grid import OcclusionGrid

__all__ = ["stage_one_step", "stage_one_stride"]


def stage_one_stride(target: float, second: int, fraction: float, extent: int) -> int:
    """Compute the first stage's stride for a target speed-up (equations 6.29 and 6.30).

    The speed-up is the number of re-inferences without drill-down over that with it, ``first**2 / (second**2 + fraction
    * first**2)`` for a first stride (equation 6.28). ``fraction`` is the share of the image in the second stage, and
    ``extent`` the pixels of the image along its shorter axis. Return pixels, rounded up, so that the speed-up is at
    least the target. Raise PatchError, with the largest speed-up, if no stride reaches it.

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
            f"the speed-up by drill-down must be at least 1 and below {most:.2f}, with {fraction:.0%} of the image in "
            f"the second stage of stride {second} (equation 6.30), got {target:g}; use a smaller fraction or target"
        )
    return max(second, math.ceil(math.sqrt(target / (1 - fraction * target)) * second))


def stage_one_step(grid: OcclusionGrid, target: float, fraction: float) -> int:
    """Compute the ratio of both stages' strides, an integer so that they share positions (equation 6.29).

    ``grid`` is that of stage two, ``fraction`` its share of the heat map, and a target of 1 means without drill-down.
    Return positions of stage two. Raise PatchError as :func:`stage_one_stride`, for the shorter side of the grid's
    region.

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
        raise PatchError(f"the drill-down fraction must be from 0 to 1, got {fraction!r}")
