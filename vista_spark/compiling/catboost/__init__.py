"""Parsers of CatBoost's models; importing this registers them. Imports no CatBoost."""

from vista_spark.compiling.catboost import _models
from vista_spark.compiling.catboost._document import ModelDocument

__all__ = ["ModelDocument", "_models"]
