"""Parsers of XGBoost models. Importing the package registers them, and does not import XGBoost."""

from vista_spark.compiling.xgboost import _models
from vista_spark.compiling.xgboost._document import ModelDocument

__all__ = ["ModelDocument", "_models"]
