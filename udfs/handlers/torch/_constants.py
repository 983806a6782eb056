"""Values in a captured graph that depend on no input: parameters, buffers, and what is computed from them alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

__all__ = ["constant", "is_constant"]

# Random numbers are new at each call.
_RANDOM = ("rand", "bernoulli", "normal", "dropout", "multinomial", "poisson")


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
            parent, _, leaf = str(node.target).rpartition(".")
            values[node] = getattr(module.get_submodule(parent), leaf)
        else:
            arguments = fx.node.map_arg((node.args, node.kwargs), lambda below: _computed(module, below, values))
            args, named = arguments
            if node.op == "call_method":
                values[node] = getattr(args[0], str(node.target))(*args[1:], **named)
            else:
                values[node] = node.target(*args, **named)  # type: ignore[operator]
    return values[node]
