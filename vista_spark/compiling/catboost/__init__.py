"""Parsers of CatBoost models. Importing the package registers them, and does not import CatBoost."""

from vista_spark.compiling.catboost import _models
from vista_spark.compiling.catboost._document import ModelDocument

__all__ = ["ModelDocument", "_models"]
