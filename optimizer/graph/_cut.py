"""Cut a graph in two, and find the layers between two sets of tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.errors import GraphError
from optimizer.graph._layer import INPUT

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from optimizer.graph._layer import Layer

__all__ = ["Cut", "Part", "cut", "part"]


@dataclass(frozen=True, slots=True)
class Cut:
    """Graph cut in two, and the tensors that cross. Returned by :meth:`LayerGraph.cut`.

    ``at`` are the layers cut at, in the order asked for. ``below`` are the layers that compute them, ``above`` the
    remaining layers of the targets, with graph inputs that have to be fed beside ``live``: the tensors below that
    something above consumes or that are themselves targets. All are in topological order.
    """

    at: tuple[str, ...]
    below: tuple[str, ...]
    above: tuple[str, ...]
    live: tuple[str, ...]
    live_bytes: int


@dataclass(frozen=True, slots=True)
class Part:
    """Partial function: the layers between available and requested tensors. Returned by :meth:`LayerGraph.part`.

    ``inputs`` are the tensors at hand that are used, ``layers`` the layers to run, both in topological order;
    ``outputs`` are in the order asked for. ``flops`` are for one record; a multiply-add counts as 2.
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

    ``layers`` are in topological order; ``below`` and ``needed`` are the ancestors of ``at`` and of ``targets``,
    themselves included.
    """
    computed = set(below)
    above = tuple(name for name in needed if name not in computed)
    crossing = {source for name in above for source in layers[name].inputs}.union(targets)
    live = tuple(name for name in below if name in crossing)
    return Cut(at, below, above, live, sum(layers[name].activation_bytes for name in live))


def part(layers: Mapping[str, Layer], have: Collection[str], want: tuple[str, ...]) -> Part:
    """Find the layers from ``have`` to ``want``; see :meth:`LayerGraph.part`.

    ``layers`` are in topological order.
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
