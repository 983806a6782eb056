"""Tuned models as models of MLflow, and ``autolog``: searches log themselves."""

from cerebro_spark.mlflow._load import _load_pyfunc
from cerebro_spark.mlflow._models import log_model, save_model
from cerebro_spark.tune import autolog

__all__ = ["_load_pyfunc", "autolog", "log_model", "save_model"]
