"""A one-dimensional CNN on windows of a watch's accelerometer and gyroscope.

``python examples/search_data.py motions --out motions.parquet``
``cerebro tune examples/searches/motions.py --table motions.parquet --out artifacts/motions``
"""

from __future__ import annotations

from typing import Any

import torch

from cerebro_spark import ModelTrainer

feature_columns = ["signal"]
label_columns = ["label"]
metric = "accuracy"
num_epochs = 10
search_space = {"lr": [1e-2, 1e-3], "channels": [8, 16]}


def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
    """Build two convolutions over time, the mean of their outputs, and Adam."""
    channels = params["channels"]
    net = torch.nn.Sequential(
        torch.nn.Conv1d(6, channels, 7, padding=3),
        torch.nn.ReLU(),
        torch.nn.MaxPool1d(2),
        torch.nn.Conv1d(channels, channels, 5, padding=2),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool1d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(channels, 4),
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=params["lr"])
    return ModelTrainer(
        model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), metrics=["accuracy"], batch_size=10
    )
