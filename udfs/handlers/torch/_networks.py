"""Modules that a function builds: structure on the meta device, state dicts, layers in the order of a forward pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from udfs.weights import fit_state_dict, read_state_dict

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from torch import nn

    from udfs.handlers._framework import Builder
    from udfs.handlers._protocol import TensorSpec

__all__ = ["build", "load", "run_order", "skeleton"]


def skeleton(builder: Builder) -> nn.Module:
    """Build on the meta device."""
    # A builder may draw numbers that the meta device does not swallow.
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        network: nn.Module = builder().eval().requires_grad_(False)
    return network


def build(builder: Builder, seed: int) -> nn.Module:
    """Build with torch's generator at a seed, and put the generator back."""
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would reseed the accelerators too, and nothing would put those back.
        torch.default_generator.manual_seed(seed)
        network: nn.Module = builder().eval().requires_grad_(False)
    return network


def run_order(builder: Builder, inputs: Sequence[TensorSpec]) -> list[str]:
    """List paths in the order in which hooks hear of their modules."""
    network = skeleton(builder)
    finished: dict[str, None] = {}

    def finish(path: str) -> Callable[[nn.Module, Any, object], None]:
        def hook(_module: nn.Module, _inputs: Any, output: object) -> None:
            if isinstance(output, torch.Tensor):
                finished.pop(path, None)
                finished[path] = None

        return hook

    for path, module in network.named_modules():
        if path:
            module.register_forward_hook(finish(path))
    with torch.no_grad():
        network(*(torch.empty((1, *spec.shape), dtype=getattr(torch, spec.dtype), device="meta") for spec in inputs))
    return list(finished)


def load(
    builder: Builder, weights: str | os.PathLike[str] | Mapping[str, torch.Tensor], seed: int, name: str
) -> nn.Module:
    """Give the skeleton a state dict, read or to be read."""
    state = weights if isinstance(weights, Mapping) else read_state_dict(weights)
    network = skeleton(builder)
    own_weights = getattr(network, "own_weights", None)
    if callable(own_weights):
        state = own_weights(state)
    fit_state_dict(network, state, name)
    if any(buffer.device.type == "meta" for buffer in network.buffers()):
        # A buffer outside the state dict has its value from the builder alone.
        network = build(builder, seed)
        fit_state_dict(network, state, name)
    return network.eval().requires_grad_(False)
