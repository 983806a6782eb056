"""Branches over the trunk, with one branch for candidates that the planner does not distinguish."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.adaptation._live_tensors import live_tensors
from optimizer.adaptation._training import FORWARD, training_flops
from optimizer.errors import GraphError, InvalidArgumentError
from optimizer.graph import frontier, materialisable

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from optimizer.adaptation._candidate import Candidate
    from optimizer.graph import LayerGraph

__all__ = ["Branch", "branches"]


@dataclass(frozen=True, slots=True)
class Branch:
    """Part of a candidate that is not materialisable, which runs in every step of any plan.

    ``members`` differ only in rates and initial weights, which the planner does not see. The branch reads ``feeds``,
    layers that the trunk yields. FLOPs and ``peak_bytes``, the live tensors at the peak of a step without the feeds,
    are for one record. ``kept_bytes`` are the parameters and the optimizer's slots.
    """

    graph: LayerGraph
    members: tuple[str, ...]
    epochs: int
    batch_size: int
    feeds: tuple[str, ...]
    flops: int
    frozen_flops: int
    kept_bytes: int
    gradient_bytes: int
    peak_bytes: int

    def trunk(self) -> LayerGraph:
        """Return the materialisable layers, which yield the feeds."""
        return self.graph.subgraph(self.feeds)


def branches(candidates: Iterable[Candidate]) -> tuple[Branch, ...]:
    """Group equivalent candidates into branches, in the order of their first members.

    Raises
    ------
    InvalidArgumentError
        Nothing of a candidate learns.
    GraphError
        A candidate reads no input.
    """
    keys: dict[int, Hashable] = {}
    alike: dict[Hashable, list[Candidate]] = {}
    for candidate in candidates:
        graph = candidate.graph
        if id(graph) not in keys:
            keys[id(graph)] = _shape(graph)
        key = (keys[id(graph)], candidate.epochs, candidate.batch_size, candidate.slots)
        alike.setdefault(key, []).append(candidate)
    return tuple(_branch(group[0], tuple(member.name for member in group)) for group in alike.values())


def _shape(graph: LayerGraph) -> Hashable:
    """Return a key of a graph with all that the planner sees: values of frozen layers, sizes and costs of the rest."""
    constant = set(materialisable(graph))
    # Trained weights differ between trials without a common seed, but do not change the plan.
    return graph.outputs, tuple(
        (
            layer.name,
            layer.inputs,
            graph.expression(layer.name) if layer.name in constant else (layer.op, layer.frozen, layer.random),
            layer.flops,
            layer.param_bytes,
            layer.activation_bytes,
            layer.inner_bytes,
        )
        for layer in graph
    )


def _branch(candidate: Candidate, members: tuple[str, ...]) -> Branch:
    # A layer that no output needs does not run, and does not learn.
    graph = candidate.graph.subgraph(candidate.graph.outputs)
    constant = set(materialisable(graph))
    remaining = [layer for layer in graph if layer.name not in constant]
    learning = [layer for layer in remaining if not layer.frozen]
    if not learning:
        raise InvalidArgumentError(
            f"candidate {candidate.name!r} must have a trainable layer that its outputs need, got none: set "
            "requires_grad "
            "in torch, or trainable in Keras"
        )
    if not graph.inputs:
        raise GraphError(f"candidate {candidate.name!r} must read an input, got constant outputs")
    feeds = frontier(graph)
    costs = training_flops(graph)
    live = live_tensors(graph, feeds, held_elsewhere=True)
    learned = sum(layer.param_bytes for layer in learning)
    return Branch(
        graph=graph,
        members=members,
        epochs=candidate.epochs,
        batch_size=candidate.batch_size,
        feeds=feeds,
        flops=sum(costs[layer.name] for layer in remaining),
        frozen_flops=FORWARD * graph.flops(constant),
        kept_bytes=sum(layer.param_bytes for layer in remaining) + candidate.slots * learned,
        gradient_bytes=learned,
        peak_bytes=live.peak,
    )
