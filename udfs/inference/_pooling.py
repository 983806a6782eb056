"""Pooling a layer's tensor to a feature vector (Vista, section 5: max pooling to a 2x2 grid of the same depth)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from udfs.images import Layout

__all__ = ["POOLINGS", "Pooling", "feature_length", "pool"]

Pooling = Literal["max2x2", "mean", "none"]
POOLINGS: tuple[str, ...] = get_args(Pooling)

_GRID = 2
_MAP_RANK = 3  # channels, height, width, or the channels last


def pool(tensors: NDArray[np.generic], pooling: Pooling, layout: Layout = "NCHW") -> NDArray[np.float32]:
    """Reduce feature maps and flatten them.

    Only feature maps are pooled, tensors of four axes; any other shape is flattened as it is. The vector is ordered by
    channel, then row, then column, whatever the layout: one map gives one vector in every framework. Cell ``i`` of the
    2x2 grid spans ``floor(i * size / 2)`` to ``ceil((i + 1) * size / 2)``, so that an odd size shares its middle
    row; a side that is no longer than the grid is left as it is.

    Parameters
    ----------
    tensors : array of shape (n, *shape)
        Tensors of a layer.
    pooling : {"max2x2", "mean", "none"}
        Pooling over the spatial axes.
    layout : {"NCHW", "NHWC"}
        Position of the channels in a feature map.

    Returns
    -------
    array of float32, shape (n, feature_length(shape, pooling, layout))
        Pooled vectors.

    Examples
    --------
    >>> pool(np.arange(9.0).reshape(1, 1, 3, 3), "max2x2")
    array([[4., 5., 7., 8.]], dtype=float32)
    """
    if tensors.ndim == _MAP_RANK + 1:
        if layout == "NHWC":
            tensors = tensors.transpose(0, 3, 1, 2)
        height, width = tensors.shape[2:]
        if pooling == "mean":
            # In one memory layout, or the order of summation would tell how the tensor came here.
            tensors = np.ascontiguousarray(tensors).mean(axis=(2, 3), dtype=np.float32)
        elif pooling == "max2x2":
            cells = [
                [tensors[:, :, rows, columns].max(axis=(2, 3)) for columns in _spans(width)] for rows in _spans(height)
            ]
            tensors = np.stack([np.stack(row, axis=-1) for row in cells], axis=-2)
    return np.ascontiguousarray(tensors.reshape(len(tensors), math.prod(tensors.shape[1:])), dtype=np.float32)


def feature_length(shape: tuple[int, ...], pooling: Pooling, layout: Layout = "NCHW") -> int:
    """Length of the vector that :func:`pool` makes of one record of ``shape`` (the product of what is left of it).

    Examples
    --------
    >>> feature_length((256, 13, 13), "max2x2"), feature_length((1000,), "max2x2")
    (1024, 1000)
    >>> feature_length((13, 13, 256), "max2x2", "NHWC")
    1024
    """
    if len(shape) != _MAP_RANK or pooling == "none":
        return math.prod(shape)
    channels, *sides = shape if layout == "NCHW" else (shape[2], *shape[:2])
    return channels if pooling == "mean" else channels * math.prod(min(side, _GRID) for side in sides)


def _spans(size: int) -> list[slice]:
    cells = min(size, _GRID)
    return [slice(i * size // cells, -(-(i + 1) * size // cells)) for i in range(cells)]
