"""Cut a graph in two, and find the layers between two sets of tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.errors import GraphError
from optimizer.graph._layer import INPUT

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from optimizer.graph._layer import Layer


@dataclass(frozen=True, slots=True)
class Cut:
    """Graph cut in two, and the tensors that cross. Returned by :meth:`LayerGraph.cut`.

    Attributes
    ----------
    at : tuple of str
        The layers cut at, in the order asked for.
    below : tuple of str
        The layers that compute ``at``: its ancestors and itself, in topological order.
    above : tuple of str
        The remaining layers of the targets, in topological order. Where the targets need a graph input that ``at``
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
    """Partial function: the layers between available and requested tensors. Returned by :meth:`LayerGraph.part`.

    Attributes
    ----------
    inputs : tuple of str
        The tensors at hand that are used, in topological order.
    outputs : tuple of str
        The tensors wanted, in the order asked for.
    layers : tuple of str
        The layers to run, in topological order.
    flops : int
        FLOPs of ``layers`` for one record; a multiply-add counts as 2.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    layers: tuple[str, ...]
    flops: int = 0


def cut(
    layers: Mapping[str, Layer],
    at: tuple[str, ...],
    targets: Collection[str],
    *,
    below: tuple[str, ...],
    needed: Sequence[str],
) -> Cut:
    """Cut a graph; see :meth:`LayerGraph.cut`.

    Parameters
    ----------
    layers : mapping of str to Layer
        The whole graph, in topological order.
    at, targets : collection of str
        Layers to cut at, and those to compute later.
    below, needed : sequence of str
        The ancestors of ``at`` and of ``targets``, themselves included, in topological order.
    """
    computed = set(below)
    above = tuple(name for name in needed if name not in computed)
    crossing = {source for name in above for source in layers[name].inputs}.union(targets)
    live = tuple(name for name in below if name in crossing)
    return Cut(at, below, above, live, sum(layers[name].activation_bytes for name in live))


def part(layers: Mapping[str, Layer], have: Collection[str], want: tuple[str, ...]) -> Part:
    """Find the layers from ``have`` to ``want``; see :meth:`LayerGraph.part`.

    Parameters
    ----------
    layers : mapping of str to Layer
        The whole graph, in topological order.
    have, want : collection of str
        Names of layers of the graph: tensors at hand and tensors to compute.
    """
    at_hand = set(have)
    needed: set[str] = set()
    stack = list(want)
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
            if name not in at_hand:
                stack.extend(layers[name].inputs)
    to_run = tuple(name for name in layers if name in needed and name not in at_hand)
    missing = [name for name in to_run if layers[name].op == INPUT]
    if missing:
        available = ", ".join(name for name in layers if name in at_hand) or "nothing"
        raise GraphError(
            f"{', '.join(want)} cannot be computed from {available}: the graph input {', '.join(missing)} is needed "
            "too; keep every live tensor of the cut, or feed that input"
        )
    inputs = tuple(name for name in layers if name in needed and name in at_hand)
    return Part(inputs, want, to_run, sum(layers[name].flops for name in to_run))
