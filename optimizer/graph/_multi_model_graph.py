"""Several models as one graph, in which identical layers appear once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from optimizer.errors import GraphError
from optimizer.graph._expression import pinned
from optimizer.graph._graph import LayerGraph
from optimizer.graph._layer import INPUT, Layer

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

__all__ = ["MultiModelGraph", "frontier", "materialisable", "merge"]


def materialisable(graph: LayerGraph) -> tuple[str, ...]:
    """List the layers whose output training never changes (Nautilus, definition 2.4).

    These are the graph inputs, and each frozen layer all of whose parents are materialisable, in topological order. A
    layer that draws random numbers is not, nor is any layer above it: the definition forgets them.

    Examples
    --------
    >>> layers = [Layer("x", "input"), Layer("a", "fc", ("x",)), Layer("b", "fc", ("a",), frozen=False)]
    >>> materialisable(LayerGraph([*layers, Layer("c", "relu", ("b",))], ["c"]))
    ('x', 'a')
    """
    unchanging: dict[str, None] = {}
    for layer in graph:
        constant = layer.frozen and not layer.random
        if layer.op == INPUT or (constant and all(source in unchanging for source in layer.inputs)):
            unchanging[layer.name] = None
    return tuple(unchanging)


def frontier(graph: LayerGraph) -> tuple[str, ...]:
    """List the materialisable layers that something above them reads: where a model is cut to train the rest alone.

    Layers that no output needs are left out; an output that is itself materialisable is among them.

    Examples
    --------
    >>> layers = [Layer("x", "input"), Layer("a", "fc", ("x",)), Layer("b", "fc", ("a",), frozen=False)]
    >>> frontier(LayerGraph(layers, ["b"]))
    ('a',)
    """
    needed = graph.subgraph(graph.outputs)
    unchanging = set(materialisable(needed))
    read = {source for layer in needed if layer.name not in unchanging for source in layer.inputs}
    return tuple(name for name in needed.names if name in unchanging and name in read.union(needed.outputs))


@dataclass(frozen=True, slots=True)
class MultiModelGraph:
    """Several models in one graph (Nautilus, definition 4.4). Made by :func:`merge`.

    The outputs of ``graph`` are those of all models; ``names[model][layer]`` is the layer's name in it.
    """

    graph: LayerGraph
    names: Mapping[str, Mapping[str, str]]

    def users(self, name: str) -> tuple[str, ...]:
        """List the models that ``name``, a layer of ``graph``, serves; where more than one, it is shared."""
        name = self.graph[name].name
        return tuple(model for model, names in self.names.items() if name in names.values())


def merge(graphs: Mapping[str, LayerGraph], *, share_trainable: bool = False) -> MultiModelGraph:
    """Put models into one graph in which layers of identical expression appear once (Nautilus, section 4.1).

    Two trainable layers that start from equal values differ after the first training step, and so do all their readers.
    By default only layers that are :func:`materialisable` in their model are shared, as in Nautilus.
    ``share_trainable`` shares every identical expression: right for inference, where no layer changes. Models whose
    inputs are alike in shape and dtype read the same records. A layer keeps its expression, and its name unless an
    earlier model uses it for another layer; then it is ``model/layer``.

    Raises
    ------
    GraphError
        No models.

    Examples
    --------
    >>> trunk = [Layer("x", "input"), Layer("conv", "conv2d", ("x",), fingerprint="1")]
    >>> cats = LayerGraph([*trunk, Layer("head", "fc", ("conv",), fingerprint="2", frozen=False)], ["head"])
    >>> dogs = LayerGraph([*trunk, Layer("head", "fc", ("conv",), fingerprint="3", frozen=False)], ["head"])
    >>> both = merge({"cats": cats, "dogs": dogs})
    >>> both.graph.names
    ('x', 'conv', 'head', 'dogs/head')
    >>> both.names["dogs"]["head"], both.users("conv")
    ('dogs/head', ('cats', 'dogs'))
    """
    if not graphs:
        raise GraphError("graphs must have at least one model, got none.")
    merged: dict[str, Layer] = {}
    name_of: dict[Hashable, str] = {}
    names: dict[str, dict[str, str]] = {}
    for model, graph in graphs.items():
        local = names[model] = {}
        shareable = set(graph.names if share_trainable else materialisable(graph))
        for layer in pinned(graph):
            key = graph.expression(layer.name) if layer.name in shareable else (model, layer.name)
            if key in name_of:
                name = name_of[key]
                # A layer that one of its models trains is trainable in the merged graph.
                merged[name] = replace(merged[name], frozen=merged[name].frozen and layer.frozen)
            else:
                name = name_of[key] = _unused(layer.name, model, merged)
                merged[name] = replace(layer, name=name, inputs=tuple(local[source] for source in layer.inputs))
            local[layer.name] = name
    outputs = dict.fromkeys(names[model][output] for model, graph in graphs.items() for output in graph.outputs)
    return MultiModelGraph(LayerGraph(merged.values(), outputs), names)


def _unused(name: str, model: str, used: Mapping[str, Layer]) -> str:
    if name not in used:
        return name
    name = f"{model}/{name}"
    while name in used:
        name += "'"
    return name
