"""A perceptron on five numbers of the adult census: the search of docs/hopper.md.

``python examples/search_data.py adult --out adult.parquet``
``cerebro tune examples/searches/adult.py --table adult.parquet --out artifacts/adult``
"""

from __future__ import annotations

from typing import Any

import torch

from cerebro_spark import ModelTrainer

feature_columns = ["age", "educational_num", "capital_gain", "capital_loss", "hours_per_week"]
label_columns = ["label"]
metric = "accuracy"
num_epochs = 2
search_space = {"lr": [1e-2, 1e-3], "hidden": [16, 32, 64, 128]}


def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
    """Build a network of one hidden layer, and Adam."""
    net = torch.nn.Sequential(
        torch.nn.Linear(len(feature_columns), params["hidden"]), torch.nn.ReLU(), torch.nn.Linear(params["hidden"], 2)
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=params["lr"])
    return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), metrics=["accuracy"])
