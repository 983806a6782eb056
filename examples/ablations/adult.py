"""Ablation of a perceptron on the adult census with a column of noise: that of docs/ablation.md.

``python examples/search_data.py adult --out adult.parquet``
``cerebro ablate examples/ablations/adult.py --table adult.parquet --out artifacts/ablation``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from cerebro_spark import ModelTrainer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

feature_columns = ["age", "educational_num", "capital_gain", "capital_loss", "hours_per_week", "noise"]
label_columns = ["label"]
metric = "accuracy"
num_epochs = 2
repeats = 5
hyperparameters = {"lr": 3e-3, "hidden": 32}

features = {
    "capital": ["capital_gain", "capital_loss"],
    "age": "age",
    "education": "educational_num",
    "hours": "hours_per_week",
    "noise": "noise",
}
modules = {"hidden layer": "2"}


def convert_table(df: DataFrame) -> DataFrame:
    """Add a column of random numbers, which no network needs."""
    from pyspark.sql import functions as F

    return df.withColumn("noise", F.randn(seed=7))


def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
    """Build a network of two hidden layers, and Adam."""
    net = torch.nn.Sequential(
        torch.nn.Linear(len(feature_columns), params["hidden"]),
        torch.nn.ReLU(),
        torch.nn.Linear(params["hidden"], params["hidden"]),
        torch.nn.ReLU(),
        torch.nn.Linear(params["hidden"], 2),
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=params["lr"])
    return ModelTrainer(
        model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), metrics=["accuracy"], batch_size=256
    )
