"""Serving of models within deadlines, from long-lived tasks of a Spark session (Nexus)."""

from vista_spark.serving._api import Api, Model
from vista_spark.serving._app import App, ModelHandler
from vista_spark.serving._model_store import ModelStore
from vista_spark.serving._profiling import profile_batches
from vista_spark.serving._scorer import Scorer
from vista_spark.serving._server import Server
from vista_spark.serving._session import Session

__all__ = ["Api", "App", "Model", "ModelHandler", "ModelStore", "Scorer", "Server", "Session", "profile_batches"]
