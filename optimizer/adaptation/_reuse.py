"""The optimal reuse plan for a given set of materialised layers: Nautilus, section 4.3.2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.adaptation._flow import Network
from optimizer.graph import peak_live_bytes

if TYPE_CHECKING:
    from optimizer.adaptation._trunk import Trunk

__all__ = ["Reuse", "ReusePlans", "TrunkMemory"]


@dataclass(frozen=True, slots=True)
class Reuse:
    """What of the trunk is read and what is computed, and what that takes for one record.

    Attributes
    ----------
    loads, computes : tuple of int
        Nodes of the trunk; what is in neither is pruned.
    load_flops, compute_flops : int
    """

    loads: tuple[int, ...]
    computes: tuple[int, ...]
    load_flops: int
    compute_flops: int

    @property
    def flops(self) -> int:
        """The cost C of equation 5, without the branches."""
        return self.load_flops + self.compute_flops


@dataclass(frozen=True, slots=True)
class TrunkMemory:
    """Bytes that the trunk holds, and per record those of the tensors at its peak and of those it hands on.

    Attributes
    ----------
    param_bytes : int
        Parameters of the layers that run.
    held_bytes : int
        Parameters of all layers below, run or not: who opens a model has them all, and needs them where a file of a
        stored layer has to be made again.
    peak_bytes, fed_bytes : int
    """

    param_bytes: int
    held_bytes: int
    peak_bytes: int
    fed_bytes: int


class ReusePlans:
    """The cheapest way to yield sets of nodes, given what is materialised; each set is planned once.

    Parameters
    ----------
    trunk : Trunk
    stored : frozenset of int
        The materialised nodes, V. Graph inputs can be read without being among them.
    """

    def __init__(self, trunk: Trunk, stored: frozenset[int]) -> None:
        self.trunk = trunk
        self.stored = stored
        self._plans: dict[frozenset[int], Reuse] = {}
        self._memory: dict[frozenset[int], TrunkMemory] = {}

    def plan(self, wanted: frozenset[int]) -> Reuse:
        """Choose what to read and what to compute, by a minimum cut.

        Two variables a node: present, and computed. A cut pays for what is true on the source's side, and an edge
        without limit says "if this, then that": a computed node has *each* of its parents present (10 (c) as printed
        asks for one). A stored node is paid when present, as if computed, and pays the rest when it is not computed.
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
                # Cheaper to read than to compute even if the parents cost nothing.
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
        """Give the memory of the plan for ``wanted``; no gradient passes here, so tensors are released on the way."""
        if wanted not in self._memory:
            reuse = self.plan(wanted)
            graph, nodes = self.trunk.graph, self.trunk.nodes
            fed = [nodes[place].name for place in sorted(wanted)]
            layers = [name for place in reuse.computes for name in nodes[place].layers]
            peak = peak_live_bytes(graph, [nodes[place].name for place in reuse.loads], fed) if fed else 0
            held = sum(graph[name].activation_bytes for name in fed)
            below = [name for place in self.trunk.below(wanted) for name in nodes[place].layers]
            self._memory[wanted] = TrunkMemory(graph.param_bytes(layers), graph.param_bytes(below), peak, held)
        return self._memory[wanted]
