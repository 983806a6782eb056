"""A deterministic topological order of layers."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from optimizer.errors import GraphError, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.graph._layer import Layer

__all__ = ["topological"]


def topological(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Order layers so that each comes after its inputs, and otherwise as early as it was given.

    A topological order comes back unchanged: frameworks trace layers in execution order, and readers recognise a plan
    in that order. Raise GraphError, with the layers at fault, for duplicate names, inputs that no layer yields, or a
    cycle.
    """
    readers = _readers(layers)
    waiting = {layer.name: len(set(layer.inputs)) for layer in layers}
    position = {layer.name: i for i, layer in enumerate(layers)}
    ready = [position[name] for name, count in waiting.items() if count == 0]
    ordered: list[Layer] = []
    while ready:
        layer = layers[heapq.heappop(ready)]
        ordered.append(layer)
        for reader in readers[layer.name]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, position[reader])
    if len(ordered) < len(layers):
        done = {layer.name for layer in ordered}
        cycle = _cycle({layer.name: layer for layer in layers if layer.name not in done})
        raise GraphError(f"the layers form a cycle: {' -> '.join(cycle)}")
    return tuple(ordered)


def _cycle(stuck: dict[str, Layer]) -> list[str]:
    """Find one cycle among layers that never became ready, in the direction of the data; the last name is the first."""
    trail: list[str] = []
    name = next(iter(stuck))
    # Every stuck layer waits for a stuck input, so walking upstream must return.
    while name not in trail:
        trail.append(name)
        name = next(source for source in stuck[name].inputs if source in stuck)
    return [name, *reversed(trail[trail.index(name) :])]


def _readers(layers: Sequence[Layer]) -> dict[str, list[str]]:
    """List the readers of each layer; refuse duplicate and unknown names."""
    readers: dict[str, list[str]] = {}
    for layer in layers:
        if layer.name in readers:
            raise GraphError(f"two layers are named {layer.name!r}; rename one: names are keys of the graph")
        readers[layer.name] = []
    for layer in layers:
        for name in dict.fromkeys(layer.inputs):
            if name not in readers:
                raise GraphError(f"layer {layer.name!r} reads {name!r}, which no layer yields{nearest(name, readers)}")
            readers[name].append(layer.name)
    return readers
