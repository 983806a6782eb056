"""Functions over rows for data debugging: out-of-sample probabilities, features, and influences over checkpoints."""

from udfs.influence._checkpoint_influence import CheckpointInfluence, Checkpoints, gradients_of
from udfs.influence._class_probabilities import ClassProbabilities
from udfs.influence._hidden_features import HiddenFeatures, projected

__all__ = ["CheckpointInfluence", "Checkpoints", "ClassProbabilities", "HiddenFeatures", "gradients_of", "projected"]
