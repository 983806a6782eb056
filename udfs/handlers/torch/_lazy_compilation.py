"""Modules of graphs that become code when they are called, not each time that their graph is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.fx._lazy_graph_module import _make_graph_module, _use_lazy_graph_module

if TYPE_CHECKING:
    from torch import fx, nn

__all__ = ["lazily_compiled"]


def lazily_compiled(root: nn.Module, graph: fx.Graph) -> fx.GraphModule:
    """Make a module of a graph, as :class:`torch.fx.GraphModule` does at five times the cost.

    Most of what is captured is changed several times, and then run node by node, without code.
    """
    with _use_lazy_graph_module(True):
        made: fx.GraphModule = _make_graph_module(root, graph)
    return made
