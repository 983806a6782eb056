"""Heat maps of one session as documents: places of a region, pixels of the photograph, and values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.occlusion import OcclusionGrid

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from udfs.images import PictureGeometry
    from vista_spark.explaining.runner._documents import HeatMapRequest

__all__ = ["Places", "cells"]

# Decimals of a value in a document.
_DECIMALS = 7


@dataclass(frozen=True)
class Places:
    """Places of a request on the grid of the whole image, so that a region has the same places as the whole map.

    Parameters
    ----------
    request : HeatMapRequest
        Request.
    side : int
        Side of the network's input.
    geometry : PictureGeometry, optional
        Relation of the photograph to the network's input; only a request with a region needs it.
    """

    request: HeatMapRequest
    side: int
    geometry: PictureGeometry | None = None

    @property
    def grid(self) -> OcclusionGrid:
        """Grid of the whole image."""
        side, patch, stride = self.side, self.request.patch, self.request.stride
        return OcclusionGrid((side, side), (patch, patch), (stride, stride))

    @property
    def region(self) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """Rows and columns of the input that the patch stays in; ``None`` for the whole image.

        A region has the places whose cells have their centre in it, at least the nearest one.

        Raises
        ------
        InvalidArgumentError
            The region is outside of the image, or of the part that the network sees.
        """
        if self.request.region is None or self.geometry is None:
            return None
        left, top, right, bottom = self.request.region
        rows, columns = self.geometry.to_input(((top, bottom), (left, right)))
        return self._axis(0, *rows), self._axis(1, *columns)

    @property
    def starts(self) -> list[NDArray[np.int64]]:
        """First pixels of the patch by row and by column of the heat map."""
        starts, region = [self.grid.starts(axis) for axis in (0, 1)], self.region
        if region is None:
            return starts
        last = [stop - self.request.patch for _, stop in region]
        return [each[(each >= pair[0]) & (each <= end)] for each, pair, end in zip(starts, region, last, strict=True)]

    @property
    def count(self) -> int:
        """Number of places."""
        rows, columns = self.starts
        return len(rows) * len(columns)

    def document(self) -> dict[str, Any]:
        """Describe the places in pixels of the upright photograph.

        ``row_starts`` and ``column_starts`` are the first pixels of the patch, ``row_edges`` and ``column_edges`` the
        borders of the cells that stand for the places; ``patch_size`` is the width and height of the patch; ``size``
        those of the photograph; ``seen`` is the part that the network sees.
        """
        geometry = self.geometry
        assert geometry is not None
        names = ("row", "column")
        described: dict[str, Any] = {}
        for axis, (name, starts) in enumerate(zip(names, self.starts, strict=True)):
            edges = _edges(starts, self.request.patch, self.request.stride)
            described[f"{name}s"] = len(starts)
            described[f"{name}_starts"] = self._photographed(axis, starts)
            described[f"{name}_edges"] = self._photographed(axis, edges)
        (top, bottom), (left, right) = geometry.seen
        scale = [size / resized for size, resized in zip(geometry.size, geometry.resized, strict=True)]
        return {
            **described,
            "patch_size": [round(self.request.patch * factor, 2) for factor in reversed(scale)],
            "size": [geometry.size[1], geometry.size[0]],
            "seen": [left, top, right, bottom],
        }

    def _photographed(self, axis: int, pixels: NDArray[Any]) -> list[float]:
        """Map pixels of the network's input to those of the photograph, cut off at its border."""
        geometry = self.geometry
        assert geometry is not None
        size = geometry.size[axis]
        mapped = (pixels + geometry.offset[axis]) * (size / geometry.resized[axis])
        return [float(value) for value in np.clip(mapped, 0, size).round(2)]

    def _axis(self, axis: int, first: int, last: int) -> tuple[int, int]:
        """Return the pixels that the patch stays in for the places whose centre lies between two pixels."""
        starts, half = self.grid.starts(axis), self.request.patch / 2
        inside = starts[(starts + half >= first) & (starts + half < last)]
        if not len(inside):
            inside = starts[[np.abs(starts + half - (first + last) / 2).argmin()]]
        return int(inside[0]), int(inside[-1]) + self.request.patch


def _edges(starts: NDArray[np.int64], patch: int, stride: int) -> NDArray[np.float64]:
    """Return the borders of cells around the centres of the patch: half-way between neighbours."""
    centres = starts + patch / 2
    return np.concatenate([[centres[0] - stride / 2], (centres[1:] + centres[:-1]) / 2, [centres[-1] + stride / 2]])


def cells(values: NDArray[np.float32]) -> list[float | None]:
    """Return the values row by row; a place that is not computed yet is ``None``.

    Examples
    --------
    >>> cells(np.array([[0.5, np.nan]], np.float32))
    [0.5, None]
    """
    rounded = np.round(values.astype(np.float64), _DECIMALS)
    return [None if np.isnan(value) else float(value) for value in rounded.ravel()]
