"""The layer graph: a neural network as the operators of a query plan.

``LayerGraph`` is the one structure that every planner shares. Vista cuts it, Nautilus merges it, Krypton takes its
geometry, Nexus and MCDNN find shared prefixes in it, Hummingbird emits it. All sizes and costs are **per record**: the
batch axis is left out of every shape, and a planner multiplies by the rows it has.
"""

from ._cut import Cut, Part
from ._graph import LayerGraph
from ._layer import Layer, Window
from ._memory import peak_live_bytes
from ._multi import MultiModelGraph, common_prefix, frontier, materialisable, merge
from ._receptive import ReceptiveField, receptive_field

__all__ = [
    "Cut",
    "Layer",
    "LayerGraph",
    "MultiModelGraph",
    "Part",
    "ReceptiveField",
    "Window",
    "common_prefix",
    "frontier",
    "materialisable",
    "merge",
    "peak_live_bytes",
    "receptive_field",
]
