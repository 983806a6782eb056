"""A small NetworkEstimator for the contract of stages."""

from __future__ import annotations

import sys
import tempfile
from typing import Any

import torch
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from sessions import new_session

from cerebro_spark import ModelTrainer, NetworkEstimator, SparkBackend, Store

__all__ = ["network_estimator"]

# The workers have no such module: its functions go to them by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def network_estimator() -> NetworkEstimator:
    """Make one that reads four numbers, with no Param set."""
    spark = SparkSession.getActiveSession() or new_session()
    return NetworkEstimator(
        backend=SparkBackend(spark, num_workers=1, threads=1),
        store=Store.from_uri(tempfile.mkdtemp(prefix="store-")),
        trainer_fn=_trainer,
        hyperparameters={"lr": 0.05, "hidden": 8},
        num_epochs=15,
        feature_columns=["numbers"],
        label_columns=["label"],
        progress=False,
    )


def _trainer(params: dict[str, Any]) -> ModelTrainer:
    net = torch.nn.Sequential(
        torch.nn.Linear(4, params["hidden"]), torch.nn.Tanh(), torch.nn.Linear(params["hidden"], 2)
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=params["lr"])
    return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), batch_size=4)
