"""TRAIN models over DataFrames: model selection by model hopper parallelism."""

from cerebro_spark._backend import SparkBackend
from cerebro_spark.model import TunedModel
from cerebro_spark.prepare import prepare
from cerebro_spark.search import GridSearch
from cerebro_spark.selection import Selection, TrialResult
from udfs.shards import PreparedData
from udfs.store import Store
from udfs.training import METRICS, Metric, ModelTrainer, TrainingFunctions

__all__ = [
    "METRICS",
    "GridSearch",
    "Metric",
    "ModelTrainer",
    "PreparedData",
    "Selection",
    "SparkBackend",
    "Store",
    "TrainingFunctions",
    "TrialResult",
    "TunedModel",
    "prepare",
]
