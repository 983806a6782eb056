"""Sequential specialization: label streams by cheap models that are trained for the classes of the moment.

Shen, *System for Serving Deep Neural Networks Efficiently*, chapter 5.
"""

from vista_spark.specialization._class_skew import class_skew
from vista_spark.specialization._classifier import SpecializedClassifier
from vista_spark.specialization._model import SpecializedModel
from vista_spark.specialization._params import METHODS
from vista_spark.specialization._skew_result import ClassSkew
from vista_spark.specialization._timeline import SpecializationTimeline

__all__ = ["METHODS", "ClassSkew", "SpecializationTimeline", "SpecializedClassifier", "SpecializedModel", "class_skew"]
