"""Layers with some of the inputs and outputs of another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import nn

from udfs.variants.torch._layers import CONVOLUTIONS, copy_of_layer

if TYPE_CHECKING:
    import torch

    from udfs.variants._structure import LayerChange

__all__ = ["CHANNEL_LAYERS", "resized_layer", "sliced_layer"]

CHANNEL_LAYERS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.PReLU)
"""Layers that compute each channel alone, with vectors of a number per channel as parameters and buffers."""


def resized_layer(layer: nn.Module, change: LayerChange) -> nn.Module | None:
    """Make a layer of other sizes, whose weights mean nothing; ``None`` for a layer without such sizes."""
    outputs, inputs, groups = change.sizes
    if type(layer) not in (nn.Linear, *CONVOLUTIONS, *CHANNEL_LAYERS):
        return None
    made = copy_of_layer(layer)
    if isinstance(layer, nn.Linear):
        shape: tuple[int, ...] = (outputs, inputs)
    elif isinstance(layer, CONVOLUTIONS):
        shape = (outputs, inputs // groups, *layer.kernel_size)
    else:
        shape = (outputs,)
    for name, tensor in _tensors(layer):
        setattr(made, name, _like(tensor, tensor.new_zeros(shape if name == "weight" else (outputs,))))
    _set_sizes(made, outputs, inputs, groups)
    return made


def sliced_layer(layer: nn.Module, outputs: torch.Tensor, inputs: torch.Tensor, groups: int) -> nn.Module:
    """Make a layer with some outputs and some inputs of another, of which each group reads all or one."""
    made = copy_of_layer(layer)
    for name, tensor in _tensors(layer):
        values = tensor.detach()[outputs]
        if name == "weight" and tensor.dim() > 1 and getattr(layer, "groups", 1) == 1:
            values = values[:, inputs]
        setattr(made, name, _like(tensor, values.contiguous()))
    _set_sizes(made, len(outputs), len(inputs), groups)
    return made


def _tensors(layer: nn.Module) -> list[tuple[str, torch.Tensor]]:
    """List parameters and buffers that have channels."""
    named = (*layer.named_parameters(recurse=False), *layer.named_buffers(recurse=False))
    return [(name, tensor) for name, tensor in named if tensor.dim()]


def _like(tensor: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return nn.Parameter(values, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else values


def _set_sizes(made: Any, outputs: int, inputs: int, groups: int) -> None:
    if isinstance(made, nn.Linear):
        made.out_features, made.in_features = outputs, inputs
    elif isinstance(made, CONVOLUTIONS):
        made.out_channels, made.in_channels, made.groups = outputs, inputs, groups
    elif isinstance(made, nn.PReLU):
        made.num_parameters = outputs
    else:
        made.num_features = outputs
