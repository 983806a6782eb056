"""Layers with weights stored in 8 or 16 bits."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from optimizer.errors import InvalidArgumentError
from udfs.variants._structure import LayerChange, Structure
from udfs.variants.torch._layers import CONVOLUTIONS, check_finite, copy_of_layer, plain_layers, replace_module

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["store", "stored_layer"]

_LARGEST = 127

# Bytes of a dequantised part of a linear layer: so many that malloc returns them to the system when it is freed.
_PART_BYTES = 1 << 26


class _Stored:
    """Part of a layer that computes its weight from numbers of fewer bits in each forward pass.

    The weight is ``stored * scale``, with a scale for each output channel; both are buffers.
    """

    stored: Tensor
    scale: Tensor

    @property
    def weight(self) -> Tensor:
        """Weight in the precision of the scale, which lives as long as the caller holds it."""
        return self.stored * self.scale


class StoredLinear(_Stored, nn.Linear):  # type: ignore[override]  # torch has an attribute
    """Linear layer with a stored weight, which is dequantised in parts: a whole one may have hundreds of megabytes."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        """Map ``(..., inputs)`` to ``(..., outputs)``."""
        rows = max(1, _PART_BYTES // (4 * self.in_features))
        parts = [
            functional.linear(input, self.stored[start : start + rows] * self.scale[start : start + rows])
            for start in range(0, self.out_features, rows)
        ]
        result = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
        return result if self.bias is None else result + self.bias


class StoredConv1d(_Stored, nn.Conv1d):  # type: ignore[override]  # torch has an attribute
    """Convolution in one dimension with a stored weight."""


class StoredConv2d(_Stored, nn.Conv2d):  # type: ignore[override]  # torch has an attribute
    """Convolution in two dimensions with a stored weight."""


class StoredConv3d(_Stored, nn.Conv3d):  # type: ignore[override]  # torch has an attribute
    """Convolution in three dimensions with a stored weight."""


_STORED: dict[type[nn.Module], type[nn.Module]] = {
    nn.Linear: StoredLinear,
    nn.Conv1d: StoredConv1d,
    nn.Conv2d: StoredConv2d,
    nn.Conv3d: StoredConv3d,
}


def store(module: nn.Module, bits: int) -> tuple[nn.Module, Structure]:
    """Store the weights of linear layers and convolutions in 8 or 16 bits.

    The numbers of an output channel are multiples of a scale: of the largest absolute weight over 127 in 8 bits
    (symmetric int8), of a power of two in 16 bits (float16). Layers compute in the precision of the network: the
    dequantised weight of a layer exists while the layer runs. Biases, batch norms and tied layers stay.

    Parameters
    ----------
    module : torch.nn.Module
        Trained network, which is not changed.
    bits : int
        8 or 16.

    Returns
    -------
    torch.nn.Module
        Copy of the network for inference.
    Structure
        Its changes.

    Raises
    ------
    InvalidArgumentError
        ``bits`` is another number, or a weight is not finite.

    Notes
    -----
    Krishnamoorthi, *Quantizing deep convolutional networks for efficient inference: a whitepaper*, 2018
    (https://arxiv.org/abs/1806.08342), section 2.2.

    Examples
    --------
    >>> small, _ = store(nn.Sequential(nn.Linear(64, 32, bias=False)), bits=8)
    >>> {name: str(tensor.dtype) for name, tensor in small.state_dict().items()}
    {'0.stored': 'torch.int8', '0.scale': 'torch.float32'}
    """
    if bits not in (8, 16):
        raise InvalidArgumentError(f"bits must be 8 or 16, got {bits!r}.")
    made, changes = copy.deepcopy(module), []
    for path, layer in plain_layers(made, nn.Linear, *CONVOLUTIONS):
        check_finite(layer, path)
        change = LayerChange(path, "stored", (bits,))
        stored = stored_layer(layer, change)
        assert stored is not None  # of a class that can be stored
        changes.append(change)
        made = replace_module(made, layer, stored)
    return made, Structure(tuple(changes))


def stored_layer(layer: nn.Module, change: LayerChange) -> nn.Module | None:
    """Make a layer that stores the weight of another; ``None`` if it has none or is of another class."""
    kind = _STORED.get(type(layer))
    if kind is None:
        return None
    weight: Any = layer.weight
    stored, scale = _quantized(weight.detach(), *change.sizes)
    made = copy_of_layer(layer)
    del made.weight  # a property of the new class
    made.__class__ = kind
    made.register_buffer("stored", stored)
    made.register_buffer("scale", scale)
    return made


def _quantized(weight: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    if weight.is_meta:  # arithmetic there imports torch._dynamo, and empty_like sympy: seconds and 30 MB
        scale = weight.new_empty(len(weight), *(1,) * (weight.dim() - 1))
        return weight.new_empty(weight.shape, dtype=torch.int8 if bits == 8 else torch.float16), scale
    tiny = torch.finfo(weight.dtype).tiny
    largest = weight.abs().flatten(1).amax(1).clamp_min(tiny * _LARGEST)
    largest = largest.reshape(-1, *(1,) * (weight.dim() - 1))
    if bits == 8:
        scale = largest / _LARGEST
        return (weight / scale).round().clamp(-_LARGEST, _LARGEST).to(torch.int8), scale
    # Powers of two are exact, and keep small weights out of float16's subnormal numbers.
    scale = torch.exp2(largest.log2().ceil())
    return (weight / scale).to(torch.float16), scale
