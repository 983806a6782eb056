"""A multi-layer perceptron: trained by a gang of Spark tasks, and run over Arrow batches."""

from udfs.perceptron._score import PerceptronError, Scoring
from udfs.perceptron._training import Fault, Training

__all__ = ["Fault", "PerceptronError", "Scoring", "Training"]
