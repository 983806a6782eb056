"""The layer graph: a neural network as the operators of a query plan.

``LayerGraph`` is the one structure that every planner shares. Vista cuts it, Nautilus merges it, Krypton takes its
geometry, Nexus and MCDNN find shared prefixes in it, Hummingbird emits it. All sizes and costs are **per record**: the
batch axis is left out of every shape, and a planner multiplies by the rows it has.
"""

from optimizer.graph._cut import Cut, Part
from optimizer.graph._graph import LayerGraph
from optimizer.graph._layer import Layer, Window
from optimizer.graph._memory import peak_live_bytes
from optimizer.graph._multi_model_graph import MultiModelGraph, frontier, materialisable, merge

__all__ = [
    "Cut",
    "Layer",
    "LayerGraph",
    "MultiModelGraph",
    "Part",
    "Window",
    "frontier",
    "materialisable",
    "merge",
    "peak_live_bytes",
]
