"""Featurizers: the layers of a pre-trained network over a column of images or text, as Spark ML Transformers."""

from vista_spark.features._cnn import CNNFeaturizer
from vista_spark.features._text import TextFeaturizer

__all__ = [
    "CNNFeaturizer",
    "TextFeaturizer",
]
