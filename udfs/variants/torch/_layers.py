"""Layers of a torch network that a transformation may replace."""

from __future__ import annotations

import copy
from collections import Counter
from typing import TYPE_CHECKING

from torch import nn

from udfs.handlers.torch import has_hooks, trace_fx

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CONVOLUTIONS", "copy_of_layer", "layers_read_by_code", "plain_layers", "replace_module"]

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


def layers_read_by_code(module: nn.Module) -> set[str]:
    """Return paths of layers whose weights the forward of another module reads, where torch.fx can trace it."""
    try:
        traced = trace_fx(module)
    except Exception:  # noqa: BLE001 - the network's forward may raise anything
        return set()
    read = {str(node.target).rpartition(".")[0] for node in traced.graph.nodes if node.op == "get_attr"}
    return read - {""}  # the module itself, which may be a layer
