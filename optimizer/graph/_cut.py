"""Cut a graph in two, and run the part between two sets of tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.errors import GraphError

from ._layer import INPUT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ._graph import LayerGraph

__all__ = ["Cut", "Part", "cut", "part"]


@dataclass(frozen=True, slots=True)
class Cut:
    """A graph cut in two, and the tensors that cross. Made by :meth:`LayerGraph.cut`.

    Attributes
    ----------
    at : tuple of str
        The layers cut at, in the order asked for.
    below : tuple of str
        What it takes to compute ``at``: its ancestors, itself included, in topological order.
    above : tuple of str
        What is still to run for the targets, in topological order. Where the targets need a graph input that ``at``
        does not, that input is listed here: it has to be fed beside ``live``.
    live : tuple of str
        The tensors below that something above consumes or that are themselves targets, in topological order.
    live_bytes : int
        Bytes of ``live`` for one record.
    """

    at: tuple[str, ...]
    below: tuple[str, ...]
    above: tuple[str, ...]
    live: tuple[str, ...]
    live_bytes: int


@dataclass(frozen=True, slots=True)
class Part:
    """A partial function: the layers between tensors at hand and tensors wanted. Made by :meth:`LayerGraph.part`.

    Attributes
    ----------
    inputs : tuple of str
        The tensors at hand that are used, in topological order.
    outputs : tuple of str
        The tensors wanted, in the order asked for.
    layers : tuple of str
        What to run, in topological order.
    flops : int
        FLOPs of ``layers`` for one record; a multiply-add counts as 2.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    layers: tuple[str, ...]
    flops: int = 0


def cut(graph: LayerGraph, at: Iterable[str], towards: Iterable[str] | None = None) -> Cut:
    """Cut ``graph``; see :meth:`LayerGraph.cut`."""
    at = graph.resolve(at)
    targets = graph.outputs if towards is None else graph.resolve(towards)
    if not at or not targets:
        raise GraphError(f"a cut needs layers to cut at and layers to lead to, got at={at}, towards={targets}")
    below = graph.ancestors(at)
    inside = set(below)
    above = tuple(name for name in graph.ancestors(targets) if name not in inside)
    crossing = {source for name in above for source in graph[name].inputs}.union(targets)
    live = tuple(name for name in below if name in crossing)
    return Cut(at, below, above, live, sum(graph[name].activation_bytes for name in live))


def part(graph: LayerGraph, have: Iterable[str], want: Iterable[str]) -> Part:
    """Find the layers from ``have`` to ``want``; see :meth:`LayerGraph.part`."""
    at_hand = set(graph.resolve(have))
    want = graph.resolve(want)
    needed: set[str] = set()
    stack = list(want)
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
            if name not in at_hand:
                stack.extend(graph[name].inputs)
    layers = tuple(name for name in graph.names if name in needed and name not in at_hand)
    missing = [name for name in layers if graph[name].op == INPUT]
    if missing:
        held = ", ".join(name for name in graph.names if name in at_hand) or "nothing"
        raise GraphError(
            f"{', '.join(want)} cannot be computed from {held}: it also takes the graph input {', '.join(missing)}; "
            "cut the graph and keep every live tensor of the cut, or feed the input too"
        )
    inputs = tuple(name for name in graph.names if name in needed and name in at_hand)
    return Part(inputs, want, layers, graph.flops(layers))
