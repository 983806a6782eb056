"""Sequential specialization: label streams by cheap models that are trained for the classes of the moment.

Shen, *System for Serving Deep Neural Networks Efficiently*, chapter 5.
"""

from vista_spark.specialization._classifier import SpecializedClassifier
from vista_spark.specialization._model import SpecializedModel

__all__ = ["SpecializedClassifier", "SpecializedModel"]
