"""Pooling a layer's tensor to a feature vector (Vista, section 5: max pooling to a 2x2 grid of the same depth)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from udfs.handlers import LayerLayout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from udfs.images import Layout

__all__ = ["POOLINGS", "Pooling", "feature_length", "pool"]

Pooling = Literal["max2x2", "mean", "none"]
POOLINGS: tuple[str, ...] = get_args(Pooling)

_GRID = 2
_MAP_RANK = 3  # channels, height, width, or the channels last


def pool(tensors: NDArray[np.generic], pooling: Pooling, layout: LayerLayout | Layout = "NCHW") -> NDArray[np.float32]:
    """Pool the places of a layer's output and flatten the result.

    The pooled vector is ordered by channel, then row, then column, whatever the layout: one map gives one vector in
    every framework. Class tokens and other tokens beside the places are left out. Cell ``i`` of the 2x2 grid spans
    ``floor(i * size / 2)`` to ``ceil((i + 1) * size / 2)``, so that an odd size shares its middle row; a side that is
    no longer than the grid is left as it is. A vector, and any output with ``pooling="none"``, is flattened as it is.

    Parameters
    ----------
    tensors : array of shape (n, *shape)
        Tensors of a layer.
    pooling : {"max2x2", "mean", "none"}
        Pooling over the places.
    layout : LayerLayout, "NCHW" or "NHWC"
        Axes of the places. A text states where feature maps, tensors of four axes, have their channels; any other
        tensor is then a vector. Default ``"NCHW"``.

    Returns
    -------
    array of float32, shape (n, feature_length(shape, pooling, layout))
        Pooled vectors.

    Examples
    --------
    >>> pool(np.arange(9.0).reshape(1, 1, 3, 3), "max2x2")
    array([[4., 5., 7., 8.]], dtype=float32)
    """
    layout = _of_maps(layout, tensors.ndim - 1)
    if layout.places and (pooling != "none" or not layout.keeps_order):
        tensors = _places_last(tensors, layout, without_others=pooling != "none")
        if pooling == "mean":
            # In one memory layout, or the order of summation would tell how the tensor came here.
            axes = tuple(range(tensors.ndim - len(layout.places), tensors.ndim))
            tensors = np.ascontiguousarray(tensors).mean(axis=axes, dtype=np.float32)
        elif pooling == "max2x2":
            if layout.grid is not None:
                tensors = tensors.reshape(*tensors.shape[:-1], *layout.grid)
            height, width = tensors.shape[-_GRID:]
            cells = [
                [tensors[..., rows, columns].max(axis=(-2, -1)) for columns in _spans(width)] for rows in _spans(height)
            ]
            tensors = np.stack([np.stack(row, axis=-1) for row in cells], axis=-2)
    return np.ascontiguousarray(tensors.reshape(len(tensors), math.prod(tensors.shape[1:])), dtype=np.float32)


def feature_length(shape: tuple[int, ...], pooling: Pooling, layout: LayerLayout | Layout = "NCHW") -> int:
    """Length of the vector that :func:`pool` makes of one record of ``shape`` (the product of what is left of it).

    Examples
    --------
    >>> feature_length((256, 13, 13), "max2x2"), feature_length((1000,), "max2x2")
    (1024, 1000)
    >>> feature_length((13, 13, 256), "max2x2", LayerLayout((0, 1)))
    1024
    """
    layout = _of_maps(layout, len(shape))
    if not layout.places or pooling == "none":
        return math.prod(shape)
    channels = math.prod(extent for axis, extent in enumerate(shape) if axis not in layout.places)
    sides = layout.grid or [shape[axis] for axis in layout.places]
    return channels if pooling == "mean" else channels * math.prod(min(side, _GRID) for side in sides)


def _of_maps(layout: LayerLayout | Layout, rank: int) -> LayerLayout:
    """Return the layout of feature maps for the position of their channels, and of vectors for any other rank."""
    if isinstance(layout, LayerLayout):
        return layout
    if rank != _MAP_RANK:
        return LayerLayout()
    return LayerLayout((1, 2)) if layout == "NCHW" else LayerLayout((0, 1), keeps_order=False)


def _places_last(tensors: NDArray[np.generic], layout: LayerLayout, *, without_others: bool) -> NDArray[np.generic]:
    if without_others and (layout.leading or layout.trailing):
        (axis,) = layout.places
        kept = slice(layout.leading, tensors.shape[axis + 1] - layout.trailing)
        tensors = tensors[(slice(None),) * (axis + 1) + (kept,)]
    axes = [axis + 1 for axis in layout.places]
    return np.moveaxis(tensors, axes, range(tensors.ndim - len(axes), tensors.ndim))


def _spans(size: int) -> list[slice]:
    cells = min(size, _GRID)
    return [slice(i * size // cells, -(-(i + 1) * size // cells)) for i in range(cells)]
