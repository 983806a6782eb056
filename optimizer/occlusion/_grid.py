"""Where on the image the occluding patch is laid."""

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
    """Positions of a patch, a row and column of the heat map each (Krypton, equations 6.1 to 6.4).

    Equations 6.1 and 6.2 lose the last row and column where the stride divides evenly; here the patch is laid wherever
    it fits.

    Parameters
    ----------
    image : tuple of int
        Extent of the image along its spatial axes: ``(height, width)``; one number for a sequence.
    patch : tuple of int
        Extent of the patch.
    stride : tuple of int
        Between two positions.
    region : tuple of tuple of int, optional
        Half-open range of the patch's pixels, an axis each; the whole image by default.

    Raises
    ------
    PatchError
        A patch that is larger than the image or the region, a region outside of the image, a number below 1.

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
            raise PatchError(f"{self}: image, patch, stride and region need one entry an axis each")
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
        """The region, or the whole image."""
        return self.region if self.region is not None else tuple((0, extent) for extent in self.image)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the heat map."""
        return tuple(
            (last - first - patch) // stride + 1
            for (first, last), patch, stride in zip(self.ranges, self.patch, self.stride, strict=True)
        )

    @property
    def count(self) -> int:
        """Positions."""
        return math.prod(self.shape)

    def starts(self, axis: int) -> NDArray[np.int64]:
        """First pixel of the patch on an axis, by row (or column) of the heat map."""
        return self.ranges[axis][0] + self.stride[axis] * np.arange(self.shape[axis], dtype=np.int64)
