"""Parsers of LightGBM models. Importing the package registers them, and does not import LightGBM."""

from vista_spark.compiling.lightgbm import _models
from vista_spark.compiling.lightgbm._text import ModelText

__all__ = ["ModelText", "_models"]
