"""Grid of the positions at which a patch occludes the image."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optimizer.occlusion._errors import PatchError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["OcclusionGrid"]

# Starts that a repr shows in full.
_SHOWN = 6


@dataclass(frozen=True, slots=True, repr=False)
class OcclusionGrid:
    """Places of a patch, one per element of the heat map (Krypton, equations 6.1 to 6.4).

    Places start every ``stride`` pixels as long as the patch fits. Where the stride does not divide, a last place flush
    with the border follows, nearer to the one before it than a stride: every pixel is covered if the stride is at most
    the patch. Equations 6.1 and 6.2 miss the last row and column even where the stride divides.

    Parameters
    ----------
    image : tuple of int
        Pixels of the image along its spatial axes: ``(height, width)``; one number for a sequence.
    patch : tuple of int
        Pixels of the patch along the same axes.
    stride : tuple of int
        Pixels between two places; the last one may be nearer to the one before it.
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
    >>> OcclusionGrid((30,), (8,), (4,)).starts(0).tolist()
    [0, 4, 8, 12, 16, 20, 22]
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
            raise PatchError(f"image, patch, stride and region must have one entry per axis, got {self._settings}")
        if min((*self.image, *self.patch, *self.stride)) < 1:
            raise PatchError(f"image, patch and stride must be at least 1, got {self._settings}")
        for axis, (extent, patch, (first, last)) in enumerate(zip(self.image, self.patch, self.ranges, strict=True)):
            if not 0 <= first < last <= extent:
                raise PatchError(f"region on axis {axis} must be within 0 and {extent}, got {first} to {last}")
            if patch > last - first:
                raise PatchError(f"patch on axis {axis} must fit into {last - first}, got {patch}; use a smaller patch")

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Half-open range of pixels per axis: the region, or the whole image."""
        return self.region if self.region is not None else tuple((0, extent) for extent in self.image)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the heat map."""
        return tuple(
            -(-(last - first - patch) // stride) + 1
            for (first, last), patch, stride in zip(self.ranges, self.patch, self.stride, strict=True)
        )

    @property
    def count(self) -> int:
        """Number of places."""
        return math.prod(self.shape)

    def starts(self, axis: int) -> NDArray[np.int64]:
        """Return the first pixel of the patch on an axis, by row (or column) of the heat map.

        The step between two starts is the stride, except before a last place flush with the border.
        """
        first, last = self.ranges[axis]
        steps = first + self.stride[axis] * np.arange(self.shape[axis], dtype=np.int64)
        return np.minimum(steps, last - self.patch[axis])

    def explain(self) -> str:
        """Describe the places, axis by axis.

        Examples
        --------
        >>> print(OcclusionGrid((30, 24), (8, 8), (4, 4)).explain())
        a patch of 8 x 8 at 7 x 5 places; they start
          on axis 0 every 4 from 0 to 20, and at 22, flush with the border
          on axis 1 every 4 from 0 to 16
        """
        patch, shape = (" x ".join(map(str, extents)) for extents in (self.patch, self.shape))
        lines = [f"a patch of {patch} at {shape} places; they start"]
        for axis, stride in enumerate(self.stride):
            starts = self.starts(axis).tolist()
            border = ""
            if len(starts) > 1 and starts[-1] - starts[-2] != stride:
                border = f", and at {starts.pop()}, flush with the border"
            regular = f"every {stride} from {starts[0]} to {starts[-1]}" if len(starts) > 1 else f"at {starts[0]}"
            lines.append(f"  on axis {axis} {regular}{border}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        starts = ", ".join(_shortened(self.starts(axis).tolist()) for axis in range(len(self.image)))
        return f"{self._settings[:-1]}, starts=[{starts}])"

    @property
    def _settings(self) -> str:
        return (
            f"{type(self).__name__}(image={self.image}, patch={self.patch}, stride={self.stride}, region={self.region})"
        )


def _shortened(numbers: list[int]) -> str:
    """Format a long list by its first two and last two numbers."""
    shown = list(map(str, numbers))
    if len(shown) > _SHOWN:
        shown[2:-2] = ["..."]
    return f"[{', '.join(shown)}]"
