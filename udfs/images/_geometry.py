"""Coordinates of a photograph and of the network's input that is made of it: resize, then centre crop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from udfs.images._preprocessing import Preprocessing

__all__ = ["PictureGeometry", "Region", "picture_geometry"]

Region: TypeAlias = tuple[tuple[int, int], tuple[int, int]]
"""Rows and columns of pixels, each half-open."""


@dataclass(frozen=True, slots=True)
class PictureGeometry:
    """Mapping between the pixels of an upright photograph and of a network's input. Made by :func:`picture_geometry`.

    ``size`` and ``resized`` are height and width of the photograph, turned by its EXIF orientation as browsers show it,
    and after resizing. ``offset`` is the row and column of the resized photograph at which the crop starts, negative
    where it is padded with black; ``crop`` is the side of the network's input.

    Examples
    --------
    >>> from udfs.images import Preprocessing
    >>> geometry = picture_geometry((375, 500), Preprocessing(crop=224, resize=256))
    >>> geometry.resized, geometry.offset
    ((256, 341), (16, 58))
    >>> geometry.seen  # of the photograph
    ((23, 352), (85, 414))
    >>> geometry.to_input(((100, 200), (200, 300)))
    ((52, 121), (78, 147))
    >>> geometry.to_photograph(((52, 121), (78, 147)))  # whole pixels, so a little more than before
    ((99, 201), (199, 301))
    """

    size: tuple[int, int]
    resized: tuple[int, int]
    offset: tuple[int, int]
    crop: int

    @property
    def seen(self) -> Region:
        """Part of the photograph that the network sees."""
        return self.to_photograph(((0, self.crop), (0, self.crop)))

    def to_input(self, region: Region) -> Region:
        """Map rows and columns of the photograph to those of the network's input that they touch.

        The region is half-open; what the crop leaves out is cut off. Raise InvalidArgumentError for an empty region,
        one outside of the photograph, or one that the network does not see at all.
        """
        for name, (first, last), extent in zip(("rows", "columns"), region, self.size, strict=True):
            if not 0 <= first < last <= extent:
                raise InvalidArgumentError(
                    f"{name} must be a range within 0 and the photograph's {extent}, got {first} to {last}."
                )
        rows, columns = (self._mapped(axis, pair, to_input=True) for axis, pair in enumerate(region))
        if rows[0] >= rows[1] or columns[0] >= columns[1]:
            (top, bottom), (left, right) = self.seen
            raise InvalidArgumentError(
                f"region {region} of the photograph is cropped away: the network sees rows {top} to {bottom} and "
                f"columns {left} to {right}"
            )
        return rows, columns

    def to_photograph(self, region: Region) -> Region:
        """Map rows and columns of the network's input to those of the photograph that they touch.

        The region is half-open; what lies in a black border is cut off.
        """
        rows, columns = (self._mapped(axis, pair, to_input=False) for axis, pair in enumerate(region))
        return rows, columns

    def _mapped(self, axis: int, pair: tuple[int, int], *, to_input: bool) -> tuple[int, int]:
        size, resized, offset = self.size[axis], self.resized[axis], self.offset[axis]
        if to_input:
            first, last = pair[0] * resized // size - offset, -(-pair[1] * resized // size) - offset
            return max(first, 0), min(last, self.crop)
        first, last = (pair[0] + offset) * size // resized, -(-(pair[1] + offset) * size // resized)
        return max(first, 0), min(last, size)


def picture_geometry(size: tuple[int, int], preprocessing: Preprocessing) -> PictureGeometry:
    """Compute how :func:`udfs.images.decode` resizes and crops an upright photograph of a height and width."""
    crop, resize = preprocessing.crop, preprocessing.resize
    resized = (crop, crop) if resize is None else resize if isinstance(resize, tuple) else _shorter_side(size, resize)
    offset = _floor_start if preprocessing.crop_start == "floor" else _rounded_start
    return PictureGeometry(size, resized, (offset(resized[0], crop), offset(resized[1], crop)), crop)


def _shorter_side(size: tuple[int, int], short: int) -> tuple[int, int]:
    """Keep the aspect ratio; the longer side is truncated, as in torchvision."""
    height, width = size
    return (int(short * height / width), short) if width <= height else (short, int(short * width / height))


def _rounded_start(length: int, crop: int) -> int:
    """Start of a centre crop as in torchvision."""
    return round((length - crop) / 2) if length >= crop else -((crop - length) // 2)


def _floor_start(length: int, crop: int) -> int:
    """Start of a centre crop as in ``transformers``."""
    return (length - crop) // 2
