"""Layers of a torch network that a transformation may replace."""

from __future__ import annotations

import copy
from collections import Counter
from typing import TYPE_CHECKING

from torch import nn

from optimizer.errors import InvalidArgumentError
from udfs.handlers.torch import has_hooks, trace_fx

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import fx

__all__ = [
    "CONVOLUTIONS",
    "check_finite",
    "copy_of_layer",
    "layers_read_by_code",
    "plain_layers",
    "replace_module",
    "trace_network",
]

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def plain_layers(module: nn.Module, *kinds: type[nn.Module]) -> Iterator[tuple[str, nn.Module]]:
    """Yield paths and layers of exactly these classes, shared ones once.

    Layers whose weight another layer has too, which hooks or parametrizations compute, or that do more than their class
    are left out: a replacement would change what the network computes.
    """
    weights = Counter(
        id(parameter)
        for inner in module.modules()
        for parameter in inner.parameters(recurse=False)  # a shared module counts once
    )
    for path, inner in list(module.named_modules()):
        # Subclasses, such as the last layer of nn.MultiheadAttention, may be read by their parent.
        if type(inner) not in kinds or has_hooks(inner) or any(inner.children()):
            continue
        if all(weights[id(parameter)] == 1 for parameter in inner.parameters(recurse=False)):
            yield path, inner


def replace_module(module: nn.Module, old: nn.Module, new: nn.Module) -> nn.Module:
    """Put a module in all places of another, in place; return the network, ``new`` if it was ``old``."""
    if module is old:
        return new
    for parent in list(module.modules()):
        # named_children leaves out the second name of a module.
        for name, child in list(parent._modules.items()):  # noqa: SLF001
            if child is old:
                setattr(parent, name, new)
    return module


def copy_of_layer(layer: nn.Module) -> nn.Module:
    """Copy a layer without children, so that its settings and tensors can be replaced; the copy shares the tensors."""
    made = copy.copy(layer)
    made._parameters, made._buffers = dict(layer._parameters), dict(layer._buffers)  # noqa: SLF001 - copy.copy shares
    return made


def check_finite(layer: nn.Module, path: str) -> None:
    """Raise InvalidArgumentError if a weight of a layer is infinite or not a number."""
    if not bool(layer.get_parameter("weight").isfinite().all()):
        raise InvalidArgumentError(f"module must have finite weights, got others in layer {path!r}.")


def trace_network(module: nn.Module, remedy: str) -> fx.GraphModule:
    """Trace a network with torch.fx; raise InvalidArgumentError, with a remedy, if its forward cannot be traced."""
    try:
        return trace_fx(module)
    except Exception as error:  # the network's forward may raise anything
        raise InvalidArgumentError(
            f"module must be a network whose forward torch.fx can trace, got {type(module).__name__}: {error}. {remedy}"
        ) from error


def layers_read_by_code(traced: fx.GraphModule) -> set[str]:
    """Return paths of layers whose weights the forward of another module reads."""
    read = {str(node.target).rpartition(".")[0] for node in traced.graph.nodes if node.op == "get_attr"}
    return read - {""}  # the module itself, which may be a layer
