"""Removal of parts from networks of torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from optimizer.ablation import REMOVED, Removal
from udfs.ablation import AblatedTrainer
from udfs.handlers import ModelTrainer, call_trainer
from udfs.shards import TensorColumn, TensorGroup
from udfs.training import TrainerError, TrainingFunctions

INPUTS = (
    TensorGroup("features", (TensorColumn("age", "float32"), TensorColumn("codes", "float32", (2,)))),
    TensorGroup("ids", (TensorColumn("user", "int64"), TensorColumn("film", "int64"))),
)


class TwoInputs(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.film = torch.nn.Embedding(5, 3)
        self.block = torch.nn.Linear(6, 6)
        self.head = torch.nn.Linear(9, 2)

    def forward(self, features: Any, ids: Any) -> Any:
        embedded = self.film(ids).flatten(1)
        return self.head(torch.cat([self.block(embedded), features], 1))


def trainer(params: dict[str, Any]) -> ModelTrainer:
    net = TwoInputs()
    return ModelTrainer(
        model=net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1), loss=torch.nn.CrossEntropyLoss()
    )


def made(**removed: Any) -> ModelTrainer:
    built = call_trainer(AblatedTrainer(trainer, INPUTS), {REMOVED: Removal(**removed).to_dict()}, 7)
    assert isinstance(built, ModelTrainer)
    return built


def test_masked_columns_of_all_inputs_are_zeros() -> None:
    random = np.random.default_rng(0)
    features = torch.from_numpy(random.normal(size=(4, 3)).astype("float32"))
    features[0, 1] = torch.nan
    ids = torch.from_numpy(random.integers(1, 5, size=(4, 2)))
    full, without = made().model, made(features=("codes", "user")).model
    zeroed = features.clone(), ids.clone()
    zeroed[0][:, 1:] = 0
    zeroed[1][:, 0] = 0
    assert torch.equal(without(features, ids), full(*zeroed))
    assert without.state_dict().keys() == full.state_dict().keys()


def test_functions_of_the_user_are_refused() -> None:
    def functions(params: dict[str, Any]) -> TrainingFunctions:
        return TrainingFunctions(model_fn=lambda params: (None, None), train_fn=lambda *_: {})

    removal = {REMOVED: Removal(features=("age",)).to_dict()}
    with pytest.raises(TrainerError, match=r"must return a ModelTrainer of torch .* got TrainingFunctions"):
        call_trainer(AblatedTrainer(functions, INPUTS), removal, 7)
