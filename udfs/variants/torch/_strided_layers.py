"""Convolutions with another stride."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from udfs.variants.torch._layers import CONVOLUTIONS, copy_of_layer

if TYPE_CHECKING:
    from torch import nn

    from udfs.variants._structure import LayerChange

__all__ = ["strided_layer"]


def strided_layer(layer: nn.Module, change: LayerChange) -> nn.Module | None:
    """Make a convolution with another stride, which shares the weights; ``None`` for other layers."""
    if type(layer) not in CONVOLUTIONS or len(change.sizes) != len(layer.kernel_size):  # type: ignore[arg-type]
        return None
    made: Any = copy_of_layer(layer)
    made.stride = change.sizes
    return made  # type: ignore[no-any-return]
