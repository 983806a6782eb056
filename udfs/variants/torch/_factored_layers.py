"""Pairs of layers with the weights of a layer as a product of two matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

if TYPE_CHECKING:
    import torch

    from udfs.variants._structure import LayerChange

__all__ = ["factored_layer", "is_factorable"]


def is_factorable(layer: nn.Module) -> bool:
    """Return whether a layer is linear, or a convolution in two dimensions without groups."""
    return type(layer) is nn.Linear or (type(layer) is nn.Conv2d and layer.groups == 1)


def factored_layer(
    layer: nn.Module, change: LayerChange, device: torch.device | str | None = None
) -> nn.Sequential | None:
    """Make a pair of layers with random weights; ``None`` if the layer cannot be factored."""
    if not is_factorable(layer):
        return None
    (rank,) = change.sizes
    bias = layer.bias is not None
    options: dict[str, Any] = {"device": device or layer.weight.device, "dtype": layer.weight.dtype}
    if isinstance(layer, nn.Linear):
        pair = nn.Sequential(
            nn.Linear(layer.in_features, rank, bias=False, **options),
            nn.Linear(rank, layer.out_features, bias=bias, **options),
        )
    else:
        assert isinstance(layer, nn.Conv2d)  # the only other layer that is factorable
        options["padding_mode"] = layer.padding_mode
        # Which axes each of the two convolutions works on.
        first, second = ((0, 1), ()) if change.kind == "bottleneck" else ((0,), (1,))
        pair = nn.Sequential(
            nn.Conv2d(layer.in_channels, rank, **_window(layer, first), bias=False, **options),
            nn.Conv2d(rank, layer.out_channels, **_window(layer, second), bias=bias, **options),
        )
    return pair.requires_grad_(layer.weight.requires_grad)


def _window(layer: nn.Conv2d, axes: tuple[int, ...]) -> dict[str, Any]:
    """Return the window of a convolution along some axes, of size 1 along the others."""

    def part(sizes: Any, neutral: int) -> Any:
        return sizes if isinstance(sizes, str) else tuple(sizes[k] if k in axes else neutral for k in range(2))

    return {
        "kernel_size": part(layer.kernel_size, 1),
        "stride": part(layer.stride, 1),
        "padding": part(layer.padding, 0),
        "dilation": part(layer.dilation, 1),
    }
