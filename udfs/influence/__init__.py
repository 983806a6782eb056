"""Functions over rows for data debugging: out-of-sample probabilities, and influences over checkpoints."""

from udfs.influence._checkpoint_influence import CheckpointInfluence, Checkpoints, check_torch
from udfs.influence._class_probabilities import ClassProbabilities

__all__ = ["CheckpointInfluence", "Checkpoints", "ClassProbabilities", "check_torch"]
