"""Parsers of XGBoost's models; importing this registers them. Imports no XGBoost."""

from vista_spark.compiling.xgboost import _models
from vista_spark.compiling.xgboost._document import ModelDocument

__all__ = ["ModelDocument", "_models"]
