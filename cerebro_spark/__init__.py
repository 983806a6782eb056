"""TRAIN models over DataFrames: model selection by model hopper parallelism.

Public names and packages are imported on first access, so that commands and servers without Spark start fast.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import udfs

if not hasattr(udfs, "check_packages"):
    raise ImportError(
        f"cerebro-spark's package 'udfs' is hidden: Python finds 'udfs' at {udfs.__file__}. "
        "Rename that file or folder, or start Python elsewhere"
    )
udfs.check_packages()

from optimizer import __version__

if TYPE_CHECKING:
    from cerebro_spark.ablation import Ablation, AblationResult
    from cerebro_spark.adaptation import Adaptation
    from cerebro_spark.data import prepare
    from cerebro_spark.ensembles import EnsembleModel
    from cerebro_spark.grouping import GroupedModel, GroupedSearch
    from cerebro_spark.hopper import SparkBackend
    from cerebro_spark.sequences import Neighbours
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
        draw_costs,
    )
    from optimizer.procedures import Spot
    from udfs.adaptation import Augmentation
    from udfs.handlers import HyperModelTrainer, ModelTrainer
    from udfs.metrics import METRICS, Metric, metric
    from udfs.offloading import DiskOffload
    from udfs.sequences import Windows
    from udfs.shards import PreparedData, Series
    from udfs.store import Store
    from udfs.training import InputColumns, Task, TrainingFunctions

__all__ = [
    "ASHA",
    "METRICS",
    "PBT",
    "Ablation",
    "AblationResult",
    "Adaptation",
    "AgingEvolution",
    "Augmentation",
    "DiskOffload",
    "EnsembleModel",
    "Experiment",
    "GridSearch",
    "GroupedModel",
    "GroupedSearch",
    "HyperModelTrainer",
    "Hyperband",
    "InputColumns",
    "Metric",
    "ModelTrainer",
    "Neighbours",
    "NetworkEstimator",
    "PreparedData",
    "RandomSearch",
    "ScheduleSearch",
    "Search",
    "Selection",
    "Series",
    "SparkBackend",
    "Spot",
    "Store",
    "Strategy",
    "SuccessiveHalving",
    "Task",
    "TrainingFunctions",
    "TrialResult",
    "TunedModel",
    "Windows",
    "__version__",
    "autolog",
    "draw_costs",
    "metric",
    "prepare",
    "register_sql",
]

# The imports above, for `__getattr__`.
_NAMES = {
    "cerebro_spark.ablation": {"Ablation", "AblationResult"},
    "cerebro_spark.adaptation": {"Adaptation"},
    "cerebro_spark.data": {"prepare"},
    "cerebro_spark.ensembles": {"EnsembleModel"},
    "cerebro_spark.grouping": {"GroupedModel", "GroupedSearch"},
    "cerebro_spark.hopper": {"SparkBackend"},
    "cerebro_spark.sequences": {"Neighbours"},
    "cerebro_spark.sql": {"register_sql"},
    "cerebro_spark.tune": {
        *("ASHA", "PBT", "AgingEvolution", "Experiment", "GridSearch", "Hyperband", "NetworkEstimator"),
        *("RandomSearch", "ScheduleSearch", "Search", "Selection", "Strategy", "SuccessiveHalving", "TrialResult"),
        *("TunedModel", "autolog", "draw_costs"),
    },
    "optimizer.procedures": {"Spot"},
    "udfs.adaptation": {"Augmentation"},
    "udfs.handlers": {"HyperModelTrainer", "ModelTrainer"},
    "udfs.metrics": {"METRICS", "Metric", "metric"},
    "udfs.offloading": {"DiskOffload"},
    "udfs.sequences": {"Windows"},
    "udfs.shards": {"PreparedData", "Series"},
    "udfs.store": {"Store"},
    "udfs.training": {"InputColumns", "Task", "TrainingFunctions"},
}
_PACKAGES = {
    "ablation",
    "adaptation",
    "callbacks",
    "data",
    "ensembles",
    "errors",
    "grouping",
    "hopper",
    "sql",
    "tune",
}


def __getattr__(name: str) -> Any:
    """Import a public name or a package on first access."""
    home = next((module for module, names in _NAMES.items() if name in names), None)
    if home is None and name not in _PACKAGES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    udfs.check_pyspark()
    value = import_module(f"{__name__}.{name}") if home is None else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})


# Pipelines saved before the stages had public paths name them by these modules.
for _module in ("model",):
    sys.modules[f"{__name__}.{_module}"] = sys.modules[__name__]
