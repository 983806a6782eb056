"""Values in a captured graph that depend on no input: parameters, buffers, and what is computed from them alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx, nn

__all__ = ["attribute", "constant", "is_constant", "parameter"]

# Random numbers are new at each call.
_RANDOM = ("rand", "bernoulli", "normal", "dropout", "multinomial", "poisson")


def attribute(module: nn.Module, path: str) -> Any:
    """Return what a module holds under a path of dots."""
    parent, _, leaf = path.rpartition(".")
    return getattr(module.get_submodule(parent), leaf)


def parameter(tensor: torch.Tensor | None) -> nn.Parameter | None:
    """Make a parameter of a tensor, without a gradient."""
    if tensor is None or isinstance(tensor, nn.Parameter):
        return tensor
    return nn.Parameter(tensor, requires_grad=False)


def is_constant(node: fx.Node) -> bool:
    """Return whether nothing that a node is computed from is an input, is random, or is a call of a module."""
    ahead, seen = [node], set[fx.Node]()
    while ahead:
        visited = ahead.pop()
        if visited in seen:
            continue
        seen.add(visited)
        if visited.op not in ("get_attr", "call_function", "call_method"):
            return False
        name = str(getattr(visited.target, "__name__", visited.target))
        if visited.op != "get_attr" and any(word in name for word in _RANDOM):
            return False
        ahead.extend(visited.all_input_nodes)
    return True


def constant(module: fx.GraphModule, node: fx.Node) -> Any:
    """Compute a node's value, or return None where it depends on an input."""
    if not is_constant(node):
        return None
    with torch.no_grad():
        return _computed(module, node, {})


def _computed(module: fx.GraphModule, node: fx.Node, values: dict[fx.Node, Any]) -> Any:
    if node not in values:
        if node.op == "get_attr":
            values[node] = attribute(module, str(node.target))
        else:
            arguments = fx.node.map_arg((node.args, node.kwargs), lambda below: _computed(module, below, values))
            args, named = arguments
            if node.op == "call_method":
                values[node] = getattr(args[0], str(node.target))(*args[1:], **named)
            else:
                values[node] = node.target(*args, **named)  # type: ignore[operator]
    return values[node]
