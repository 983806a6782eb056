"""Trunk of all candidates: their frozen layers, merged and reduced to few nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.adaptation._post_dominators import dominators
from optimizer.graph import merge

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from optimizer.adaptation._branch import Branch
    from optimizer.adaptation._candidate import Costs
    from optimizer.graph import Layer, LayerGraph, MultiModelGraph

__all__ = ["Node", "Trunk", "stored_bytes", "trunk_of"]


@dataclass(frozen=True, slots=True)
class Node:
    """Layer of the trunk, with the layers that run exactly if it runs.

    ``layers`` are those to run for the node, its own included. ``flops``, ``load`` (cost of reading in FLOPs) and
    ``nbytes`` are for one record. A ``source`` is a graph input, which is only read. ``storable`` nodes may be stored
    by some best plan.
    """

    name: str
    layers: tuple[str, ...]
    parents: tuple[int, ...]
    flops: int
    load: int
    nbytes: int
    source: bool
    storable: bool


@dataclass(frozen=True, slots=True)
class Trunk:
    """Materialisable part of the multi-model graph (Nautilus, section 4.1), reduced by :func:`trunk_of`.

    The names of ``merged`` have the first member of each branch. ``feeds`` are the nodes that each branch reads.
    """

    merged: MultiModelGraph
    nodes: tuple[Node, ...]
    feeds: tuple[frozenset[int], ...]
    float_bytes: int = 4

    @property
    def graph(self) -> LayerGraph:
        """Graph of all layers of the trunk."""
        return self.merged.graph

    @property
    def storable(self) -> tuple[int, ...]:
        """Nodes that may be materialised: U of the paper, without those that no best plan needs."""
        return tuple(place for place, node in enumerate(self.nodes) if node.storable)

    def below(self, wanted: Collection[int]) -> tuple[int, ...]:
        """List ``wanted`` and the nodes that they depend on, in topological order."""
        reached = set(wanted)
        for place in reversed(range(len(self.nodes))):
            if place in reached:
                reached.update(self.nodes[place].parents)
        return tuple(sorted(reached))


def trunk_of(
    branches: Sequence[Branch],
    costs: Costs,
    *,
    records: int,
    disk_bytes: int,
    stored: Collection[str] | None = None,
    float_bytes: int = 4,
) -> Trunk:
    """Merge the trunks of the branches, and drop layers that no best plan reads.

    A layer whose outputs do not fit on the disk is not storable; with ``stored``, only the layers of these expressions
    are. Drop layers that are never worth storing: those that are slower to read than to compute from the graph's
    inputs, and those whose paths all lead through a layer of at most their size. A layer that is not storable, feeds no
    branch and has a single reader becomes part of the reader.
    """
    merged = merge({branch.members[0]: branch.trunk() for branch in branches})
    graph = merged.graph
    fed = [{merged.names[branch.members[0]][name] for name in branch.feeds} for branch in branches]
    wanted = set().union(*fed)
    if stored is None:
        storable = _storable(graph, wanted, costs, disk_bytes // records, float_bytes)
    else:
        storable = {layer.name for layer in graph if layer.op != "input" and graph.expression(layer.name) in stored}
    part_of: dict[str, str] = {}
    for layer in reversed(graph.layers):
        readers = graph.consumers(layer.name)
        alone = layer.op != "input" and layer.name not in storable | wanted and len(readers) == 1
        part_of[layer.name] = part_of[readers[0]] if alone else layer.name
    return _nodes(merged, fed, part_of, storable, costs, float_bytes)


def stored_bytes(layer: Layer, float_bytes: int) -> int:
    """Count the bytes of an output on disk; those of the records are stored unchanged."""
    rounded = layer.op != "input" and layer.dtype == "float32"
    return layer.activation_bytes * float_bytes // 4 if rounded else layer.activation_bytes


def _storable(graph: LayerGraph, wanted: set[str], costs: Costs, most_bytes: int, float_bytes: int) -> set[str]:
    above = dominators(graph, wanted)
    nbytes = {layer.name: stored_bytes(layer, float_bytes) for layer in graph}
    storable: set[str] = set()
    for layer in graph:
        below = graph.ancestors(layer.name)
        read = sum(costs.load_flops(nbytes[name]) for name in below if name in graph.inputs)
        storable_here = layer.op != "input" and nbytes[layer.name] <= most_bytes
        if storable_here and costs.load_flops(nbytes[layer.name]) < read + graph.flops(below):
            storable.add(layer.name)
    return {
        name for name in storable if name in wanted or not any(nbytes[other] <= nbytes[name] for other in above(name))
    }


def _nodes(
    merged: MultiModelGraph,
    fed: Iterable[set[str]],
    part_of: Mapping[str, str],
    storable: set[str],
    costs: Costs,
    float_bytes: int,
) -> Trunk:
    graph = merged.graph
    place = {name: i for i, name in enumerate(name for name in graph.names if part_of[name] == name)}
    layers: dict[str, list[str]] = {name: [] for name in place}
    for name in graph.names:
        layers[part_of[name]].append(name)
    nodes = []
    for name, inside in layers.items():
        sources = (source for part in inside for source in graph[part].inputs)
        nbytes = stored_bytes(graph[name], float_bytes)
        nodes.append(
            Node(
                name=name,
                layers=tuple(inside),
                parents=tuple(sorted({place[part_of[source]] for source in sources if part_of[source] != name})),
                flops=graph.flops(inside),
                load=costs.load_flops(nbytes),
                nbytes=nbytes,
                source=graph[name].op == "input",
                storable=name in storable,
            )
        )
    return Trunk(merged, tuple(nodes), tuple(frozenset(place[name] for name in names) for names in fed), float_bytes)
