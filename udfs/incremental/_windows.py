"""Windowed layers on the part of their input that a patch of their output reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from udfs.handlers.torch import has_hooks

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from optimizer.graph import Layer, Window

__all__ = ["computable", "outside", "padding", "read_in", "unpadded"]

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_MAX_POOLS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)
_AVERAGE_POOLS = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)
_PADS = (
    *(nn.ConstantPad1d, nn.ConstantPad2d, nn.ConstantPad3d),
    *(nn.ZeroPad1d, nn.ZeroPad2d, nn.ZeroPad3d),
)


def computable(module: nn.Module | None, layer: Layer) -> bool:
    """Return whether a layer with a window can run without its padding.

    Functions, subclasses of torch's modules and modules with hooks cannot, as they may read the whole tensor.
    """
    if module is None or has_hooks(module):
        return False
    if type(module) in _CONVOLUTIONS:
        return module.padding_mode == "zeros"  # a circular padding reads the other end
    if type(module) in _AVERAGE_POOLS and layer.window is not None:
        # Where the border has another divisor, an average does not depend on its window alone.
        plain = bool(module.count_include_pad) or not any(layer.window.padding)
        return plain and not module.ceil_mode and getattr(module, "divisor_override", None) is None
    return type(module) in _MAX_POOLS or type(module) in _PADS


def outside(module: nn.Module | None) -> float:
    """Return the value of a layer's padding."""
    if isinstance(module, _PADS):
        return float(module.value)
    return -torch.inf if isinstance(module, _MAX_POOLS) else 0.0


def unpadded(module: nn.Module, window: Window, context: torch.Tensor) -> torch.Tensor:
    """Run a layer on a tensor that has the padding already."""
    axis = window.axes - 1
    if isinstance(module, _PADS):
        return context
    if isinstance(module, _CONVOLUTIONS):
        convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[axis]
        context = context.to(module.weight.dtype)  # the last layers of a network in bfloat16 are in float32
        return convolve(context, module.weight, module.bias, window.stride, 0, window.dilation, module.groups)
    if isinstance(module, _MAX_POOLS):
        maximum = (functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)[axis]
        pooled: torch.Tensor = maximum(context, window.kernel, window.stride, 0, window.dilation)
        return pooled
    mean = (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)[axis]
    return mean(context, window.kernel, window.stride, 0)


def padding(window: Window, sizes: Sequence[int], last: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Count the elements before and behind a tensor that its windows read.

    A pooling of ``ceil_mode`` and an uneven ``padding="same"`` read more behind than before.
    """
    steps = zip(sizes, last, window.kernel, window.stride, window.padding, window.dilation, strict=True)
    return tuple(
        (before, max(0, at * stride - before + (kernel - 1) * dilation + 1 - size))
        for size, at, kernel, stride, before, dilation in steps
    )


def read_in(
    window: Window, starts: Sequence[NDArray[np.int64]], lengths: Sequence[int]
) -> tuple[tuple[NDArray[np.int64], ...], tuple[int, ...]]:
    """Compute starts and lengths of the read-in contexts (equations 6.15 and 6.16)."""
    begin = (
        start * stride - before for start, stride, before in zip(starts, window.stride, window.padding, strict=True)
    )
    steps = zip(lengths, window.kernel, window.stride, window.dilation, strict=True)
    extents = ((length - 1) * stride + (kernel - 1) * dilation + 1 for length, kernel, stride, dilation in steps)
    return tuple(begin), tuple(extents)
