"""TRAIN models over DataFrames: model selection by model hopper parallelism."""

import sys

import udfs

if not hasattr(udfs, "check_packages"):
    raise ImportError(
        f"cerebro-spark's package 'udfs' is hidden: Python finds 'udfs' at {udfs.__file__}. "
        "Rename that file or folder, or start Python elsewhere"
    )
udfs.check_packages()

from cerebro_spark.adaptation import Adaptation
from cerebro_spark.data import prepare
from cerebro_spark.hopper import SparkBackend
from cerebro_spark.sql import register_sql
from cerebro_spark.tune import (
    ASHA,
    PBT,
    AgingEvolution,
    Experiment,
    GridSearch,
    Hyperband,
    NetworkEstimator,
    RandomSearch,
    ScheduleSearch,
    Search,
    Selection,
    Strategy,
    SuccessiveHalving,
    TrialResult,
    TunedModel,
    autolog,
)
from optimizer import __version__
from udfs.adaptation import Augmentation
from udfs.handlers import ModelTrainer
from udfs.metrics import METRICS, Metric, metric
from udfs.shards import PreparedData
from udfs.store import Store
from udfs.training import Task, TrainingFunctions

__all__ = [
    "ASHA",
    "METRICS",
    "PBT",
    "Adaptation",
    "AgingEvolution",
    "Augmentation",
    "Experiment",
    "GridSearch",
    "Hyperband",
    "Metric",
    "ModelTrainer",
    "NetworkEstimator",
    "PreparedData",
    "RandomSearch",
    "ScheduleSearch",
    "Search",
    "Selection",
    "SparkBackend",
    "Store",
    "Strategy",
    "SuccessiveHalving",
    "Task",
    "TrainingFunctions",
    "TrialResult",
    "TunedModel",
    "__version__",
    "autolog",
    "metric",
    "prepare",
    "register_sql",
]

# Pipelines saved before the stages had public paths name them by these modules.
for _module in ("model",):
    sys.modules[f"{__name__}.{_module}"] = sys.modules[__name__]
