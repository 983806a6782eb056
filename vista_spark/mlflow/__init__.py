"""Stages as models of MLflow: ``vista_spark.mlflow.log_model(featurizer, "features")``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vista_spark.mlflow._load import open_model
from vista_spark.mlflow._models import log_model, save_model

if TYPE_CHECKING:
    from vista_spark.mlflow._load import Served

__all__ = ["log_model", "save_model"]


def _load_pyfunc(path: str) -> Served:
    """Open a saved model; MLflow asks its loader module for this name."""
    return open_model(Path(path))
