"""Memory layout: what keeps a captured graph from running with channels last."""

from __future__ import annotations

import torch
from torch import fx

from udfs.handlers.torch._names import operation

__all__ = ["needs_contiguous", "reshape_views"]

_ATEN_VIEWS = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default)  # the operator's name

# Their values depend on how a tensor lies in memory.
_OF_STRIDES = frozenset(
    {"as_strided", "as_strided_copy", "as_strided_scatter", "stride", "storage_offset", "is_contiguous", "view"}
)


def reshape_views(module: fx.GraphModule) -> None:
    """Rewrite ``view`` by ``reshape``, which gives the same where ``view`` works, and works in any layout."""
    for node in module.graph.nodes:
        if node.op == "call_method" and node.target in ("view", "view_as") and not _of_bits(node):
            node.target = "reshape" if node.target == "view" else "reshape_as"
        elif node.target in _ATEN_VIEWS:
            node.target = torch.ops.aten.reshape.default
    module.recompile()


def needs_contiguous(module: fx.GraphModule) -> bool:
    """Return whether an operation reads strides: in another layout it would fail, or give other numbers."""
    return any(node.op != "call_module" and operation(node) in _OF_STRIDES for node in module.graph.nodes)


def _of_bits(node: fx.Node) -> bool:
    """Return whether a view takes the same memory for another type."""
    return "dtype" in node.kwargs or any(isinstance(argument, torch.dtype) for argument in node.args)
