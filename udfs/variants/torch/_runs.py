"""Runs of a network on example records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves

from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from torch import nn

__all__ = ["output_of", "recorded_calls"]


def output_of(module: nn.Module, example: torch.Tensor) -> torch.Tensor:
    """Run a network without gradients and return its output, or the first tensor in it."""
    with torch.no_grad():
        tensors = [leaf for leaf in tree_leaves(module(example)) if isinstance(leaf, torch.Tensor)]
    if not tensors:
        raise InvalidArgumentError(f"module must return a tensor, got none from {type(module).__name__}.")
    return tensors[0]


def recorded_calls(module: nn.Module, example: torch.Tensor) -> dict[str, list[bool]]:
    """Run a network and list, for each path in the order of the results, which calls kept the shape of a tensor."""
    calls: dict[str, list[bool]] = {}

    def hook(path: str) -> Any:
        return lambda _module, inputs, output: calls.setdefault(path, []).append(_keeps_shape(inputs, output))

    handles = [inner.register_forward_hook(hook(path)) for path, inner in module.named_modules()]
    try:
        output_of(module, example)
    finally:
        for handle in handles:
            handle.remove()
    return calls


def _keeps_shape(inputs: tuple[Any, ...], output: object) -> bool:
    if len(inputs) != 1 or not isinstance(inputs[0], torch.Tensor) or not isinstance(output, torch.Tensor):
        return False
    return inputs[0].shape == output.shape and inputs[0].dtype == output.dtype
