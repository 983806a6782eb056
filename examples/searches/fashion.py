"""A small CNN on Fashion-MNIST's pictures, decoded on the workers as the featurizer decodes them.

``python examples/search_data.py fashion --rows 6000 --out fashion.parquet``
``cerebro tune examples/searches/fashion.py --table fashion.parquet --out artifacts/fashion``
"""

from __future__ import annotations

from typing import Any

import torch

from cerebro_spark import ModelTrainer

feature_columns = ["image"]
label_columns = ["label"]
image_size = 28
metric = "accuracy"
num_epochs = 3
search_space = {"lr": [3e-3, 1e-3], "channels": [16, 32]}


class Pictures(torch.nn.Module):
    """Two convolutions and a linear layer."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, channels, 3, padding=1),
            torch.nn.BatchNorm2d(channels),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(channels, 2 * channels, 3, padding=1),
            torch.nn.BatchNorm2d(2 * channels),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Flatten(),
            torch.nn.Linear(2 * channels * 7 * 7, 10),
        )

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Compute scores of the ten kinds, from RGB between 0 and 1."""
        return self.layers(image)


def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
    """Build the network, and Adam."""
    net = Pictures(params["channels"])
    optimizer = torch.optim.Adam(net.parameters(), lr=params["lr"])
    return ModelTrainer(
        model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), metrics=["accuracy"], batch_size=64
    )
