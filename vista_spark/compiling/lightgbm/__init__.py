"""Parsers of LightGBM's models; importing this registers them. Imports no LightGBM."""

from vista_spark.compiling.lightgbm import _models
from vista_spark.compiling.lightgbm._text import ModelText

__all__ = ["ModelText", "_models"]
