"""Spatial windows of convolutions, poolings and paddings, be they modules, functions or aten operators."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from torch import fx, nn

from optimizer.graph import Window
from udfs.handlers.torch._names import operation

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["window"]

_POOLS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)

_PADS = (nn.ConstantPad1d, nn.ConstantPad2d, nn.ConstantPad3d, nn.ZeroPad1d, nn.ZeroPad2d, nn.ZeroPad3d)

# Positional parameters: those of torch.nn.functional, torch and aten agree.
_CONVOLUTION = ("input", "weight", "bias", "stride", "padding", "dilation")
_MAX_POOL = ("input", "kernel_size", "stride", "padding", "dilation")
_AVERAGE_POOL = ("input", "kernel_size", "stride", "padding")
_FUNCTIONS = {
    **{f"conv{axes}d": _CONVOLUTION for axes in (1, 2, 3)},
    **{f"max_pool{axes}d{more}": _MAX_POOL for axes in (1, 2, 3) for more in ("", "_with_indices")},
    **{f"avg_pool{axes}d": _AVERAGE_POOL for axes in (1, 2, 3)},
}


def window(node: fx.Node, inner: nn.Module | None, shape_of: Callable[[fx.Node], tuple[int, ...]]) -> Window | None:
    """Return the kernel, stride, padding and dilation of a node, or None where it has no window.

    A padding by a constant is a window of one element with an offset. ``inner`` is the module that the node calls;
    ``shape_of`` gives the shape of a node's tensor, the batch axis included.
    """
    if isinstance(inner, nn.modules.conv._ConvTransposeNd):  # it reads a window of its output
        return None
    if isinstance(inner, _PADS):
        return _offset(inner.padding, len(shape_of(node)) - 2)
    if isinstance(inner, (nn.modules.conv._ConvNd, *_POOLS)):  # the common base
        settings = {name: getattr(inner, name, None) for name in ("kernel_size", "stride", "padding", "dilation")}
        return _window(settings, len(shape_of(node)) - 2)
    if node.target is operator.getitem:
        source = node.args[0]
        if not isinstance(source, fx.Node) or not operation(source).endswith("_with_indices"):
            return None
        node = source
    names = _FUNCTIONS.get(operation(node)) if node.op == "call_function" else None
    if names is None:
        return None
    options: dict[str, Any] = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    if "weight" in names:
        options["kernel_size"] = shape_of(options["weight"])[2:]
        options["stride"] = options.get("stride", 1)
    return _window(options, len(shape_of(options["input"])) - 2)


def _offset(sides: Any, axes: int) -> Window | None:
    """Describe a padding, whose sides are listed from the last axis on; None where it crops, or pads channels."""
    if min(sides) < 0 or any(sides[2 * axes :]):
        return None
    before = [*sides[0 : 2 * axes : 2], *(0,) * axes][:axes]
    ones = (1,) * axes
    return Window(ones, ones, tuple(reversed(before)), ones)


def _window(options: dict[str, Any], axes: int) -> Window:
    def spread(name: str, default: Any) -> tuple[int, ...]:
        value = options.get(name)
        if value is None or value == []:
            value = default
        if isinstance(value, int):
            return (value,) * axes
        return tuple(value) * (axes if len(value) == 1 else 1)

    kernel, dilation = spread("kernel_size", None), spread("dilation", 1)
    padding = options.get("padding")
    if padding == "same":
        options = {**options, "padding": [(size - 1) * step // 2 for size, step in zip(kernel, dilation, strict=True)]}
    elif padding == "valid":
        options = {**options, "padding": 0}
    # A pooling steps by its kernel unless told otherwise.
    return Window(kernel, spread("stride", kernel), spread("padding", 0), dilation)
