"""Layers through which every way up leads: post-dominators of a trunk."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from optimizer.graph import LayerGraph

__all__ = ["dominators"]


def dominators(graph: LayerGraph, wanted: Collection[str]) -> Callable[[str], Iterator[str]]:
    """Find the layers through which every path from a layer to a wanted one leads.

    Parameters
    ----------
    graph : LayerGraph
    wanted : collection of str
        The layers where paths end; a path may also go on through one to another.

    Returns
    -------
    callable
        Yields these layers for a name, the lowest first.

    Examples
    --------
    A residual block: both ways from ``x`` meet at ``sum``.

    >>> from optimizer.graph import Layer, LayerGraph
    >>> layers = [Layer("x", "input"), Layer("conv", "conv", ("x",)), Layer("sum", "add", ("conv", "x"))]
    >>> above = dominators(LayerGraph([*layers, Layer("top", "fc", ("sum",))], ["top"]), ["top"])
    >>> list(above("x")), list(above("conv")), list(above("top"))
    (['sum', 'top'], ['sum', 'top'], [])
    """
    # The end of all paths is "", which is no layer's name.
    parent: dict[str, str] = {}
    depth = {"": 0}
    for name in reversed(graph.names):
        nexts = [reader for reader in graph.consumers(name) if reader in depth]
        if name in wanted:
            nexts.append("")
        if not nexts:
            continue
        meeting = nexts[0]
        for other in nexts[1:]:
            one = other
            while one != meeting:
                if depth[one] < depth[meeting]:
                    meeting = parent[meeting]
                else:
                    one = parent[one]
        parent[name] = meeting
        depth[name] = depth[meeting] + 1

    def above(name: str) -> Iterator[str]:
        at = parent.get(name, "")
        while at:
            yield at
            at = parent[at]

    return above
