"""Grid of the positions at which a patch occludes the image."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ._errors import PatchError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["OcclusionGrid"]


@dataclass(frozen=True, slots=True)
class OcclusionGrid:
    """Positions of a patch, one per element of the heat map (Krypton, equations 6.1 to 6.4).

    Equations 6.1 and 6.2 miss the last row and column where the stride divides evenly; this grid has every position at
    which the patch fits.

    Parameters
    ----------
    image : tuple of int
        Pixels of the image along its spatial axes: ``(height, width)``; one number for a sequence.
    patch : tuple of int
        Pixels of the patch along the same axes.
    stride : tuple of int
        Pixels between two positions.
    region : tuple of tuple of int, optional
        Half-open range of pixels that the patch may cover, one per axis; the whole image by default.

    Raises
    ------
    PatchError
        The patch is larger than the image or the region, the region is not within the image, or a number is below 1.

    Examples
    --------
    >>> OcclusionGrid((224, 224), (16, 16), (4, 4)).shape
    (53, 53)
    """

    image: tuple[int, ...]
    patch: tuple[int, ...]
    stride: tuple[int, ...]
    region: tuple[tuple[int, int], ...] | None = None

    def __post_init__(self) -> None:
        sizes = {len(self.image), len(self.patch), len(self.stride)}
        if self.region is not None:
            sizes.add(len(self.region))
        if len(sizes) != 1:
            raise PatchError(f"{self}: image, patch, stride and region need one entry per axis")
        if min((*self.image, *self.patch, *self.stride)) < 1:
            raise PatchError(f"{self}: image, patch and stride start at 1")
        for axis, (extent, patch, (first, last)) in enumerate(zip(self.image, self.patch, self.ranges, strict=True)):
            if not 0 <= first < last <= extent:
                raise PatchError(f"region {first} to {last} on axis {axis}: within 0 and the image's {extent}")
            if patch > last - first:
                raise PatchError(
                    f"a patch of {patch} on axis {axis} does not fit into {last - first}: take a smaller patch"
                )

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Half-open range of pixels per axis: the region, or the whole image."""
        return self.region if self.region is not None else tuple((0, extent) for extent in self.image)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the heat map."""
        return tuple(
            (last - first - patch) // stride + 1
            for (first, last), patch, stride in zip(self.ranges, self.patch, self.stride, strict=True)
        )

    @property
    def count(self) -> int:
        """Number of positions."""
        return math.prod(self.shape)

    def starts(self, axis: int) -> NDArray[np.int64]:
        """Return the first pixel of the patch on an axis, by row (or column) of the heat map."""
        return self.ranges[axis][0] + self.stride[axis] * np.arange(self.shape[axis], dtype=np.int64)
