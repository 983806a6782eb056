"""Adaptation of pre-trained models: which frozen layers to keep on disk, and which candidates train together.

The planner of Nautilus (Nakandala and Kumar, SIGMOD 2022, section 4), over the layer graph of :mod:`optimizer.graph`.
A framework's handler gives each layer its parents, forward FLOPs, output shape, parameters and fingerprint, whether it
is ``frozen``, whether it draws (``random``), and for a composite layer its ``inner_bytes``.
"""

from optimizer.adaptation._candidate import Candidate, Costs
from optimizer.adaptation._group import Group, Phase
from optimizer.adaptation._live import LiveTensors, live_tensors
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
