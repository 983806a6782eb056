"""Candidates that differ in no number the planner sees, as one branch over the trunk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.adaptation._live import live_tensors
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
    """What of a candidate is not materialisable: it runs in every step, whatever the plan.

    Attributes
    ----------
    graph : LayerGraph
        The candidate's layers that its outputs need.
    members : tuple of str
        Candidates alike but for what the planner does not see: rates, initial weights of what learns.
    epochs, batch_size : int
    feeds : tuple of str
        The materialisable layers that the branch reads; the trunk has to yield them.
    flops : int
        Training FLOPs of the branch for one record.
    frozen_flops : int
        Forward FLOPs of the layers below it for one record.
    kept_bytes : int
        Parameters of the branch, and the optimizer's slots.
    gradient_bytes : int
        Gradients of what learns.
    peak_bytes, loss_bytes : int
        Live tensors of one record without the feeds: at the peak of a step, and at the loss.
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
    loss_bytes: int

    def trunk(self) -> LayerGraph:
        """Cut off the materialisable layers, which yield the feeds."""
        return self.graph.subgraph(self.feeds)


def branches(candidates: Iterable[Candidate]) -> tuple[Branch, ...]:
    """Put candidates that are alike into one branch each, in the order of their first members.

    Raises
    ------
    InvalidArgumentError
        A candidate of which nothing learns.
    GraphError
        One that reads no input.
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
    """Key a graph by all that the planner sees: values of what is frozen below, sizes and costs of the rest."""
    constant = set(materialisable(graph))
    # Weights that learn differ between trials without a common seed; they change no plan.
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
    # A layer that no output needs is not run, and learns nothing.
    graph = candidate.graph.subgraph(candidate.graph.outputs)
    constant = set(materialisable(graph))
    own = [layer for layer in graph if layer.name not in constant]
    learning = [layer for layer in own if not layer.frozen]
    if not learning:
        raise InvalidArgumentError(
            f"candidate {candidate.name!r}: nothing learns; leave a layer above which the outputs are trainable "
            "(requires_grad in torch, trainable in Keras)"
        )
    if not graph.inputs:
        raise GraphError(f"candidate {candidate.name!r} reads no input: its outputs are the same for every record")
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
        flops=sum(costs[layer.name] for layer in own),
        frozen_flops=FORWARD * graph.flops(constant),
        kept_bytes=sum(layer.param_bytes for layer in own) + candidate.slots * learned,
        gradient_bytes=learned,
        peak_bytes=live.peak,
        loss_bytes=live.at_loss,
    )
