"""Sequential specialization: cheap models for the classes that a stream shows now.

Chapter 5 and appendix C of Shen, *System for Serving Deep Neural Networks Efficiently*. Time is in seconds of one
machine.
"""

from optimizer.specialization._accuracy import (
    Confusion,
    ConfusionCurve,
    cascaded_accuracy,
    cascaded_seconds,
    corrected_skew,
)
from optimizer.specialization._difference import choose_threshold
from optimizer.specialization._dominant import (
    Detection,
    choose_window,
    detection,
    dominant_classes,
    least_support,
)
from optimizer.specialization._policy import CompactProfile, Estimate, Policy
from optimizer.specialization._simulation import Segment, SimulatedRun, draw_labels, simulate
from optimizer.specialization._state import OTHER, Expert, SpecializationState
from optimizer.specialization._windowed_greedy import Decision, Need, WindowedGreedy

__all__ = [
    "OTHER",
    "CompactProfile",
    "Confusion",
    "ConfusionCurve",
    "Decision",
    "Detection",
    "Estimate",
    "Expert",
    "Need",
    "Policy",
    "Segment",
    "SimulatedRun",
    "SpecializationState",
    "WindowedGreedy",
    "cascaded_accuracy",
    "cascaded_seconds",
    "choose_threshold",
    "choose_window",
    "corrected_skew",
    "detection",
    "dominant_classes",
    "draw_labels",
    "least_support",
    "simulate",
]
