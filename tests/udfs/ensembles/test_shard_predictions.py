"""Configurations of an ensemble, opened on the workers as the search opened them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from udfs.ensembles import CandidateStates, ShardPredictions
from udfs.handlers import ModelTrainer, open_session
from udfs.training import RANDOM_STREAM, Folds, initial_seed


class Projected(torch.nn.Module):
    """A network whose input passes numbers that are drawn once and are in no checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("drawn", torch.randn(3, 3), persistent=False)
        self.last = torch.nn.Linear(3, 2)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.last(rows @ self.drawn)


def trainer(_params: dict[str, Any]) -> ModelTrainer:
    net = Projected()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss())


@pytest.mark.parametrize("params", [{}, {RANDOM_STREAM: "repeat 1"}])
def test_a_configuration_has_the_random_numbers_of_its_name(params: dict[str, Any]) -> None:
    job = ShardPredictions(None, trainer, 7, None, (), Folds(2))  # type: ignore[arg-type] # no rows are read
    session = job._opened(CandidateStates("c003", params, {}))
    searched = open_session(trainer, params, initial_seed(7, params.get(RANDOM_STREAM, "c003")))
    assert torch.equal(session.model.drawn, searched.model.drawn)
