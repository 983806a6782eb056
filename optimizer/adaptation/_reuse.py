"""Optimal reuse plans for a set of materialised layers (Nautilus, section 4.3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.adaptation._minimum_cut import Network
from optimizer.graph import peak_live_bytes

if TYPE_CHECKING:
    from optimizer.adaptation._trunk import Trunk

__all__ = ["Reuse", "ReusePlans", "TrunkMemory"]


@dataclass(frozen=True, slots=True)
class Reuse:
    """Nodes of the trunk to read and to compute, with their FLOPs for one record.

    Nodes in neither ``loads`` nor ``computes`` are pruned.
    """

    loads: tuple[int, ...]
    computes: tuple[int, ...]
    load_flops: int
    compute_flops: int

    @property
    def flops(self) -> int:
        """Cost C of equation 5, without the branches."""
        return self.load_flops + self.compute_flops


@dataclass(frozen=True, slots=True)
class TrunkMemory:
    """Memory of the trunk.

    ``param_bytes`` include layers that do not run: an open model has them, and needs them to repair a damaged file of a
    stored layer. ``peak_bytes`` and ``fed_bytes``, which the branches read, are live tensors per record.
    """

    param_bytes: int
    peak_bytes: int
    fed_bytes: int


class ReusePlans:
    """Cheapest ways to yield sets of nodes with some materialised nodes; each set is planned once.

    Parameters
    ----------
    stored : frozenset of int
        Materialised nodes, V, without the graph inputs, which can always be read.
    """

    def __init__(self, trunk: Trunk, stored: frozenset[int]) -> None:
        self.trunk = trunk
        self.stored = stored
        self._plans: dict[frozenset[int], Reuse] = {}
        self._memory: dict[frozenset[int], TrunkMemory] = {}

    def plan(self, wanted: frozenset[int]) -> Reuse:
        """Choose the nodes to read and to compute, by a minimum cut.

        A node has the variables "present" and "computed". A cut pays for variables on the source's side, and an edge
        with unlimited capacity is an implication: a computed node has all of its parents present (10 (c) as printed
        requires one). The capacities of a stored node are the cost of reading, and the rest of the cost of computing.
        """
        if wanted not in self._plans:
            self._plans[wanted] = self._cut(wanted)
        return self._plans[wanted]

    def _cut(self, wanted: frozenset[int]) -> Reuse:
        below = self.trunk.below(wanted)
        nodes = self.trunk.nodes
        present = {place: i for i, place in enumerate(below)}
        network = Network(2 * len(below))
        unlimited = 1 + sum(nodes[place].load + nodes[place].flops for place in below)
        maybe: set[int] = set()
        for place in below:
            node, here = nodes[place], present[place]
            computed = here
            if node.source or (place in self.stored and node.load < node.flops):
                # Reading is cheaper than computing even if the parents cost nothing.
                network.edge(here, network.sink, node.load)
                continue
            if place in self.stored:
                computed = len(below) + here
                network.edge(here, computed, node.load - node.flops)
            maybe.add(place)
            network.edge(here, network.sink, node.flops)
            for parent in node.parents:
                network.edge(computed, present[parent], unlimited)
        for place in wanted:
            network.edge(network.source, present[place], unlimited)
        pruned = network.sink_side()
        loads, computes, stack = set[int](), set[int](), sorted(wanted)
        while stack:
            place = stack.pop()
            if place in loads or place in computes:
                continue
            here = present[place]
            if place in maybe and (place not in self.stored or len(below) + here not in pruned):
                computes.add(place)
                stack.extend(nodes[place].parents)
            else:
                loads.add(place)
        return Reuse(
            tuple(sorted(loads)),
            tuple(sorted(computes)),
            sum(nodes[place].load for place in loads),
            sum(nodes[place].flops for place in computes),
        )

    def memory(self, wanted: frozenset[int]) -> TrunkMemory:
        """Return the memory of the plan for ``wanted``; without gradients, tensors are released on the way."""
        if wanted not in self._memory:
            reuse = self.plan(wanted)
            graph, nodes = self.trunk.graph, self.trunk.nodes
            fed = [nodes[place].name for place in sorted(wanted)]
            peak = peak_live_bytes(graph, [nodes[place].name for place in reuse.loads], fed) if fed else 0
            fed_bytes = sum(graph[name].activation_bytes for name in fed)
            below = [name for place in self.trunk.below(wanted) for name in nodes[place].layers]
            self._memory[wanted] = TrunkMemory(graph.param_bytes(below), peak, fed_bytes)
        return self._memory[wanted]
