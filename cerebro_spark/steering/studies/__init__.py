"""Experiments of a server as studies of Optuna, for its plots, its importances and Optuna Dashboard."""

from cerebro_spark.steering.studies._storage import ExperimentStorage, ReadOnlyStorageError

__all__ = ["ExperimentStorage", "ReadOnlyStorageError"]
