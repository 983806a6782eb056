"""Stages as models of MLflow: ``vista_spark.mlflow.log_model(featurizer, "features")``."""

from vista_spark.mlflow._load import _load_pyfunc
from vista_spark.mlflow._models import log_model, save_model

__all__ = ["_load_pyfunc", "log_model", "save_model"]
