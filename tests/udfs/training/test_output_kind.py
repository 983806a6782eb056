"""What a session says its network's first output is, by its loss."""

from __future__ import annotations

from typing import Any

import keras
import pytest
import torch

from udfs.handlers import ModelTrainer, open_session
from udfs.training import TrainingFunctions


def squared(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return ((outputs - labels) ** 2).mean()


def binary_crossentropy(labels: Any, outputs: Any) -> Any:
    return keras.ops.mean((outputs - labels) ** 2)


@pytest.mark.parametrize(
    ("loss", "kind"),
    [
        (torch.nn.CrossEntropyLoss(), "logits"),
        (torch.nn.BCEWithLogitsLoss(), "logits"),
        (torch.nn.BCELoss(), "probabilities"),
        (torch.nn.MSELoss(), "values"),
        ([torch.nn.L1Loss(), torch.nn.CrossEntropyLoss()], "values"),
        (squared, "unknown"),
    ],
    ids=["cross-entropy", "logits", "probabilities", "squares", "first-of-two", "own"],
)
def test_of_torch(loss: Any, kind: str) -> None:
    def trainer(params: dict[str, Any]) -> ModelTrainer:
        net = torch.nn.Linear(2, 2)
        return ModelTrainer(model=net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1), loss=loss)

    assert open_session(trainer, {}, 0).output_kind == kind


@pytest.mark.parametrize(
    ("loss", "kind"),
    [
        ("sparse_categorical_crossentropy", "probabilities"),
        (keras.losses.SparseCategoricalCrossentropy(from_logits=True), "logits"),
        (keras.losses.BinaryCrossentropy(), "probabilities"),
        ("mse", "values"),
        (keras.losses.Huber(), "values"),
        (keras.losses.Hinge(), "unknown"),
        (binary_crossentropy, "unknown"),
    ],
    ids=["sparse", "logits", "binary", "squares", "huber", "hinge", "own-of-a-known-name"],
)
def test_of_keras(loss: Any, kind: str) -> None:
    def trainer(params: dict[str, Any]) -> ModelTrainer:
        net = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
        return ModelTrainer(model=net, optimizer=keras.optimizers.SGD(0.1), loss=loss)

    assert open_session(trainer, {}, 0).output_kind == kind


def test_of_functions() -> None:
    def model(params: Any) -> Any:
        net = torch.nn.Linear(2, 2)
        return net, torch.optim.SGD(net.parameters(), lr=0.1)

    functions = TrainingFunctions(model_fn=model, train_fn=lambda *_: {"loss": 0.0})
    assert open_session(lambda _: functions, {}, 0).output_kind == "unknown"
