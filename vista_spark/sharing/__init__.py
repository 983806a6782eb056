"""Sharing of a trunk by several classifiers (MCDNN): one network, and a trained upper part per attribute.

Shen, *System for Serving Deep Neural Networks Efficiently*, section 4.3.2.2.
"""

from vista_spark.sharing._attributes import SharedAttribute
from vista_spark.sharing._handlers import Handlers, Prediction
from vista_spark.sharing._model import SharedModel
from vista_spark.sharing._parts import SharedPart
from vista_spark.sharing._share import share

__all__ = ["Handlers", "Prediction", "SharedAttribute", "SharedModel", "SharedPart", "share"]
