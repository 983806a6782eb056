"""A multi-layer perceptron: trained by a gang of Spark tasks, and run over Arrow batches."""

from udfs.mlp._head_training import HeadTraining
from udfs.mlp._score import PerceptronError, Scoring
from udfs.mlp._training import Fault, Training

__all__ = ["Fault", "HeadTraining", "PerceptronError", "Scoring", "Training"]
