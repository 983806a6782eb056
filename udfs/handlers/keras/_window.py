"""Spatial windows of Keras's convolutions, poolings, paddings and croppings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keras import layers

from optimizer.graph import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["window"]

_CONVOLUTIONS = (
    *(layers.Conv1D, layers.Conv2D, layers.Conv3D),
    *(layers.DepthwiseConv1D, layers.DepthwiseConv2D, layers.SeparableConv1D, layers.SeparableConv2D),
)
# They read a window of their output.
_TRANSPOSED = (layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose)
_POOLS = (
    *(layers.MaxPooling1D, layers.MaxPooling2D, layers.MaxPooling3D),
    *(layers.AveragePooling1D, layers.AveragePooling2D, layers.AveragePooling3D),
)
_PADDINGS = (layers.ZeroPadding1D, layers.ZeroPadding2D, layers.ZeroPadding3D)
_CROPPINGS = (layers.Cropping1D, layers.Cropping2D, layers.Cropping3D)


def window(operation: Any, shape: Sequence[int | None]) -> Window | None:
    """Return the kernel, stride, padding and dilation of a layer, or None where it has no window of a fixed size.

    ``shape`` is that of the tensor that it reads, the batch axis included.
    """
    if isinstance(operation, _PADDINGS):
        return _shift(operation.padding, 1)
    if isinstance(operation, _CROPPINGS):
        return _shift(operation.cropping, -1)
    if isinstance(operation, _TRANSPOSED) or not isinstance(operation, (*_CONVOLUTIONS, *_POOLS)):
        return None
    axes = len(shape) - 2
    kernel = _spread(operation.pool_size if isinstance(operation, _POOLS) else operation.kernel_size, axes)
    strides = _spread(operation.strides, axes)
    dilation = _spread(getattr(operation, "dilation_rate", 1), axes)
    extents = shape[2:] if operation.data_format == "channels_first" else shape[1:-1]
    before = [_before(operation.padding, *axis) for axis in zip(extents, kernel, strides, dilation, strict=True)]
    return Window(kernel, strides, tuple(before), dilation)


def _shift(padding: Any, sign: int) -> Window:
    """Describe what only moves the index: ``padding`` is a pair an axis, or the pair of one axis."""
    pairs = [padding] if isinstance(padding[0], int) else padding
    ones = (1,) * len(pairs)
    return Window(ones, ones, tuple(sign * int(before) for before, _ in pairs), ones)


def _spread(value: Any, axes: int) -> tuple[int, ...]:
    return (value,) * axes if isinstance(value, int) else tuple(value)


def _before(padding: str, extent: int | None, kernel: int, stride: int, dilation: int) -> int:
    reach = (kernel - 1) * dilation + 1
    if padding == "causal":
        return reach - 1
    if padding != "same" or extent is None:
        return 0
    # TensorFlow pads as little as the output needs, and the odd element behind.
    return max((-(-extent // stride) - 1) * stride + reach - extent, 0) // 2
