"""Planner of adaptations: frozen layers to keep on disk, and candidates that train together.

It is the planner of Nautilus (Nakandala and Kumar, SIGMOD 2022, section 4) over the graphs of :mod:`optimizer.graph`. A
framework's handler sets each layer's parents, forward FLOPs, output shape, parameters, fingerprint, ``frozen`` and
``random``, and ``inner_bytes`` of composite layers.
"""

from optimizer.adaptation._candidate import Candidate, Costs
from optimizer.adaptation._group import Group, Phase
from optimizer.adaptation._live_tensors import LiveTensors, live_tensors
from optimizer.adaptation._plan import AdaptationPlan
from optimizer.adaptation._planner import plan
from optimizer.adaptation._training import passes, training_flops

__all__ = [
    "AdaptationPlan",
    "Candidate",
    "Costs",
    "Group",
    "LiveTensors",
    "Phase",
    "live_tensors",
    "passes",
    "plan",
    "training_flops",
]
