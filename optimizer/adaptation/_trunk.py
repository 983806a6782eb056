"""The frozen layers of all candidates as few nodes: what can be read, and what it takes to compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.adaptation._dominance import dominators
from optimizer.graph import merge

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from optimizer.adaptation._branch import Branch
    from optimizer.adaptation._candidate import Costs
    from optimizer.graph import Layer, LayerGraph, MultiModelGraph

__all__ = ["Node", "Trunk", "stored_bytes", "trunk_of"]


@dataclass(frozen=True, slots=True)
class Node:
    """A layer of the trunk, with the layers that run exactly if it does.

    Attributes
    ----------
    name : str
    layers : tuple of str
        The layers to run for it, itself included, in the trunk's names.
    parents : tuple of int
        The nodes that they read.
    flops : int
        Forward FLOPs of ``layers`` for one record.
    load : int
        FLOPs missed while one record's output is read.
    nbytes : int
        Bytes of that output on disk.
    source : bool
        A graph input: the records themselves, which lie on disk anyway and are read, never computed.
    storable : bool
        Worth a place on disk under some plan.
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
    """The multi-model graph's materialisable part (Nautilus, section 4.1), reduced. Made by :func:`trunk_of`.

    Attributes
    ----------
    merged : MultiModelGraph
        The layers in full; ``names`` goes by the first member of each branch.
    nodes : tuple of Node
        In topological order.
    feeds : tuple of frozenset of int
        For each branch the nodes that it reads.
    float_bytes : int
        That a float32 number of a stored layer takes.
    """

    merged: MultiModelGraph
    nodes: tuple[Node, ...]
    feeds: tuple[frozenset[int], ...]
    float_bytes: int = 4

    @property
    def graph(self) -> LayerGraph:
        """All layers of the trunk, each once."""
        return self.merged.graph

    @property
    def storable(self) -> tuple[int, ...]:
        """The nodes that may be materialised: U of the paper, without those that no best plan needs."""
        return tuple(place for place, node in enumerate(self.nodes) if node.storable)

    def below(self, wanted: Collection[int]) -> tuple[int, ...]:
        """List the nodes that ``wanted`` depend on, themselves included, in topological order."""
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
    """Merge the branches' trunks, and drop what no best plan reads.

    Parameters
    ----------
    branches : sequence of Branch
    costs : Costs
    records, disk_bytes : int
        A layer of which not even ``records`` outputs fit is not storable.
    stored : collection of str, optional
        Expressions of layers that lie on disk: exactly these are storable then.
    float_bytes : int
        That a float32 number of a stored layer takes on disk. Default 4.

    Returns
    -------
    Trunk
        Not storable is a layer that takes longer to read than to compute from the graph's inputs; or every way up from
        which leads through a layer of no more bytes, where that one can be read instead. What is not storable, is fed
        to no branch and has one reader runs exactly if the reader does, and is made part of it.
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
    """Count the bytes of an output on disk; those of the records lie there as they are."""
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
