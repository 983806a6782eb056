"""Post-dominators of a trunk: layers on every path to the wanted layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from optimizer.graph import LayerGraph

__all__ = ["dominators"]


def dominators(graph: LayerGraph, wanted: Collection[str]) -> Callable[[str], Iterator[str]]:
    """Find the layers on every path from a layer to a wanted layer.

    A path may pass through one wanted layer to another. Return a function that yields these layers for a name, the
    lowest first.

    Examples
    --------
    A residual block: both ways from ``x`` meet at ``sum``.

    >>> from optimizer.graph import Layer, LayerGraph
    >>> layers = [Layer("x", "input"), Layer("conv", "conv", ("x",)), Layer("sum", "add", ("conv", "x"))]
    >>> above = dominators(LayerGraph([*layers, Layer("top", "fc", ("sum",))], ["top"]), ["top"])
    >>> list(above("x")), list(above("conv")), list(above("top"))
    (['sum', 'top'], ['sum', 'top'], [])
    """
    # The name "" stands for the end of all paths.
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
            while other != meeting:
                if depth[other] < depth[meeting]:
                    meeting = parent[meeting]
                else:
                    other = parent[other]  # noqa: PLW2901 - climb to the common ancestor
        parent[name] = meeting
        depth[name] = depth[meeting] + 1

    def above(name: str) -> Iterator[str]:
        at = parent.get(name, "")
        while at:
            yield at
            at = parent[at]

    return above
