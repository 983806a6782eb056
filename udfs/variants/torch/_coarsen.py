"""Larger strides in the first convolutions of a trained network."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from torch import nn

from optimizer.arguments import whole
from optimizer.errors import InvalidArgumentError
from udfs.variants._structure import LayerChange, Structure
from udfs.variants.torch._apply import apply_structure
from udfs.variants.torch._layers import CONVOLUTIONS, plain_layers
from udfs.variants.torch._runs import output_of, recorded_calls

if TYPE_CHECKING:
    import torch

__all__ = ["coarsen"]


def coarsen(module: nn.Module, example: torch.Tensor, factor: int) -> tuple[nn.Module, Structure]:
    """Multiply the strides of the first convolutions, so that all later layers read smaller maps.

    A convolution's stride grows up to its kernel, so that it skips no pixels; the rest of the factor goes to the next
    one with which the network runs. The network must accept maps of other sizes, as with adaptive pooling.

    Parameters
    ----------
    module : torch.nn.Module
        Trained network, which is not changed.
    example : torch.Tensor
        Batch of records, shape ``(records, channels, ...)``.
    factor : int
        Product of the factors of all strides, 2 or more.

    Returns
    -------
    torch.nn.Module
        Copy of the network with larger strides and the same weights.
    Structure
        Its changes.

    Raises
    ------
    InvalidArgumentError
        ``factor`` is below 2, or the network does not run or returns another shape with such strides.

    Notes
    -----
    An architectural change of section 4.3.1 of Shen, *System for Serving Deep Neural Networks Efficiently*.

    Examples
    --------
    >>> import torch
    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))
    >>> faster, _ = coarsen(net, torch.zeros(1, 3, 32, 32), factor=2)
    >>> faster[0].stride
    (2, 2)
    """
    factor = whole("factor", factor, 2)
    probe = copy.deepcopy(module).eval()
    shape = output_of(probe, example[:1]).shape
    # On small maps, a sum of two sizes could pass for a broadcast.
    large = nn.functional.interpolate(example[:1], scale_factor=2 * factor)
    layers = dict(plain_layers(probe, *CONVOLUTIONS))
    changes: list[LayerChange] = []
    left, reason = factor, ""
    for path in recorded_calls(probe, example[:1]):
        for share in range(left, 1, -1):
            layer: Any = layers.get(path)
            if layer is None or left % share or not _fits(layer, share):
                continue
            before, layer.stride = layer.stride, tuple(stride * share for stride in layer.stride)
            fault = _fault(probe, (example[:1], large), shape)
            if not fault:
                changes.append(LayerChange(path, "strided", layer.stride))
                left //= share
                break
            layer.stride, reason = before, reason or f"with a larger stride in {path!r} {fault}"
    if left > 1:
        raise InvalidArgumentError(
            f"factor must be a product of strides with which {type(module).__name__} runs, got {factor}: "
            f"{reason or 'the kernels of its convolutions are smaller'}. Use a smaller factor, or smaller inputs"
        )
    structure = Structure(tuple(changes))
    return apply_structure(copy.deepcopy(module), structure), structure


def _fits(layer: Any, share: int) -> bool:
    """Return whether a convolution whose stride is multiplied skips no element of its input."""
    return all(stride * share <= kernel for stride, kernel in zip(layer.stride, layer.kernel_size, strict=True))


def _fault(network: nn.Module, inputs: tuple[torch.Tensor, ...], shape: torch.Size) -> str:
    """Describe why a network does not run on inputs, or returns another shape; empty if it does."""
    for records in inputs:
        try:
            made = output_of(network, records).shape
        except Exception as error:  # noqa: BLE001 - any layer above may refuse a smaller map
            return f"it fails: {str(error).partition(chr(10))[0]}"
        if made != shape:
            return f"its output has the shape {tuple(made)}"
    return ""
