"""Operands of elementwise layers on patches: constants and tensors that the patch does not change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from optimizer.occlusion import is_broadcasting, is_per_channel
from udfs.handlers.torch import has_hooks

if TYPE_CHECKING:
    from optimizer.graph import Layer
    from udfs.handlers.torch import TorchModel

__all__ = ["constants_of", "is_spread", "spread", "spread_name"]


def constants_of(model: TorchModel, layer: Layer) -> dict[str, Any] | None:
    """Return the constants of a layer without a window, or None where it must be computed in full.

    In full are modules with hooks, layers that read a number computed from a changing tensor (``x / x.max()``), and
    layers with a tensor of constants whose axes are neither the image's nor the channels.

    Returns
    -------
    dict of str to object
        Values by the names of their nodes.
    """
    module = model.module_of(layer.name)
    if module is not None:
        return None if has_hooks(module) else {}
    constants = model.constants(layer.name)
    if constants is None or is_broadcasting(layer) or is_per_channel(layer):
        return constants
    with_axes = any(isinstance(value, torch.Tensor) and value.numel() > 1 for value in constants.values())
    return None if with_axes else constants


def is_spread(layer: Layer, value: Any, axes: int) -> bool:
    """Return whether a layer reads a tensor that varies along a spatial axis of the image."""
    return isinstance(value, torch.Tensor) and is_broadcasting(layer) and any(size > 1 for size in value.shape[-axes:])


def spread(value: torch.Tensor, extents: tuple[int, ...]) -> torch.Tensor:
    """Expand a tensor, as an operator of that layer would, to shape (1, channels or 1, *extents)."""
    missing = len(extents) + 2 - value.dim()
    whole = value.detach().reshape(*(1,) * missing, *value.shape)
    return whole.expand(*whole.shape[:2], *extents)


def spread_name(name: str, layer: str) -> str:
    """Return the name of a layer's expanded tensor."""
    return f"{name} for {layer}"
