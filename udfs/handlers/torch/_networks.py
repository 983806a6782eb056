"""Modules that a function builds: structure on the meta device, state dicts, layers in the order of a forward pass."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from udfs.handlers._builders import building, keeps_skeleton, not_a_network
from udfs.handlers.torch._fx import example, private
from udfs.handlers.torch._hidden_modules import check_held, has_meta_tensor, is_lazy
from udfs.handlers.torch._meta_device import UndrawnWeights
from udfs.handlers.torch._opened_program import is_program, returned_paths
from udfs.weights import fit_state_dict, read_state_dict

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from udfs.handlers._framework import Builder
    from udfs.tensors import TensorSpec

__all__ = ["build", "load", "run_order", "skeleton"]

# Of a first run that gives Lazy modules their shapes; one record is too few for a batch norm's statistics.
_FIRST_BATCH = 2


def skeleton(builder: Builder, inputs: Sequence[TensorSpec]) -> nn.Module:
    """Build on the meta device; with memory where the builder does not run there, as one that reads a file."""
    try:
        # A builder may draw numbers that the meta device does not swallow.
        with torch.random.fork_rng(devices=[]), torch.device("meta"), UndrawnWeights(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a state dict cannot be loaded into it
            network = builder()
            if isinstance(network, nn.Module):
                network = _with_shapes(network, inputs)
    except Exception:  # noqa: BLE001 - the user's own function may raise anything; off the meta device it says why
        return build(builder, inputs, 0)
    return _for_inference(network, builder)


def build(builder: Builder, inputs: Sequence[TensorSpec], seed: int) -> nn.Module:
    """Build with torch's generator at a seed, and put the generator back."""
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would reseed the accelerators too, and nothing would put those back.
        torch.default_generator.manual_seed(seed)
        with building(builder):
            network = builder()
            if isinstance(network, nn.Module):
                network = _with_shapes(network, inputs)
    network = _for_inference(network, builder)
    if has_meta_tensor(network):
        raise keeps_skeleton(builder)
    return network


def run_order(network: nn.Module, inputs: Sequence[TensorSpec]) -> list[str]:
    """List paths in the order in which hooks hear of their modules, of those that give a tensor.

    A module that gives a tuple, as a recurrent one, counts by the first tensor in it. Raise UntraceableModelError if
    the network does not run on such inputs.
    """
    if is_program(network):
        return list(returned_paths(network))
    finished: dict[str, None] = {}

    def finish(path: str) -> Callable[[nn.Module, Any, object], None]:
        def hook(_module: nn.Module, _inputs: Any, output: object) -> None:
            first = output[0] if isinstance(output, tuple) and output else output
            if isinstance(first, torch.Tensor):
                finished.pop(path, None)
                finished[path] = None

        return hook

    heard = private(network)
    for path, module in heard.named_modules():
        if path:
            module.register_forward_hook(finish(path))
    with torch.no_grad():
        heard(*example(inputs, 1, network=heard))
    return list(finished)


def load(
    builder: Builder,
    inputs: Sequence[TensorSpec],
    weights: str | os.PathLike[str] | Mapping[str, torch.Tensor],
    seed: int,
    name: str,
) -> nn.Module:
    """Load a state dict, read or to be read, into the skeleton."""
    state = weights if isinstance(weights, Mapping) else read_state_dict(weights)
    network = skeleton(builder, inputs)
    own_weights = getattr(network, "own_weights", None)
    if callable(own_weights):
        state = own_weights(state)
    fit_state_dict(network, state, name)
    if has_meta_tensor(network):
        # A buffer or a tensor outside the state dict has its value from the builder alone.
        network = build(builder, inputs, seed)
        fit_state_dict(network, state, name)
    return network.eval().requires_grad_(False)


def _for_inference(network: Any, builder: Builder) -> nn.Module:
    """Make a private copy that shares the weights: a builder may return a network that its author still uses."""
    if not isinstance(network, nn.Module):
        raise not_a_network(builder, network, "torch.nn.Module")
    if is_program(network):
        return network  # opened from a file, for this caller alone
    check_held(network)
    return private(network).eval().requires_grad_(False)


def _with_shapes(network: nn.Module, inputs: Sequence[TensorSpec]) -> nn.Module:
    """Run Lazy modules once, so that they have weights."""
    if is_lazy(network):
        network.eval()
        with torch.no_grad():
            network(*example(inputs, _FIRST_BATCH))
    return network
