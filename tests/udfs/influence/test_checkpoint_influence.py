"""TracIn over checkpoints: equal to a plain loop over rows with autograd, and to captum."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from cerebro_spark import ModelTrainer
from cerebro_spark.errors import InvalidArgumentError
from udfs.handlers import open_session
from udfs.handlers.torch import last_layer, row_gradients
from udfs.inference import NetworkInputs
from udfs.influence import CheckpointInfluence, Checkpoints, gradients_of
from udfs.shards import TensorColumn, TensorGroup

FEATURES = TensorGroup("features", (TensorColumn("x", "float32", (5,)),))
LABEL = TensorGroup("y", (TensorColumn("y", "int64"),))


def network() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(5, 6), torch.nn.BatchNorm1d(6), torch.nn.Tanh(), torch.nn.Dropout(0.5), torch.nn.Linear(6, 3)
    )


def trainer(params: dict[str, Any]) -> ModelTrainer:
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=params["lr"])
    return ModelTrainer(
        model=net,
        optimizer=optimizer,
        loss=torch.nn.CrossEntropyLoss(weight=torch.tensor([1.0, 3.0, 0.5])),
        batch_size=8,
        scheduler=torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5),
    )


def drawn(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.normal(size=(rows, 5)).astype(np.float32), random.integers(0, 3, rows)


@pytest.fixture(scope="module")
def trained() -> Checkpoints:
    session = open_session(trainer, {"lr": 0.2}, 4)
    features, labels = drawn(32, 0)
    rows: Any = SimpleNamespace(inputs=(features,), labels=(labels,), rows=32, weights=None)
    states = []
    for _ in range(3):
        session.train(rows, np.arange(32), ends_epoch=True)
        states.append(session.checkpoint())
    data: Any = None
    return Checkpoints(trainer, {"lr": 0.2}, 4, data, tuple(lambda state=state: state for state in states))


def influence(checkpoints: Checkpoints, layers: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    features, labels = drawn(32, 0)
    function = CheckpointInfluence(
        checkpoints, layers, NetworkInputs((FEATURES, LABEL), ()), drawn(4, 1), "influence", "self"
    )
    batch = pa.RecordBatch.from_pydict({"x": [*features.tolist(), None], "y": [*labels.tolist(), 0]})
    new = function.open(1)(batch)
    assert new.reasons[-1] == "null" and new.columns[0][32].as_py() is None, "a bad row has no influence"
    return np.array(new.columns[0].to_pylist()[:32]), np.array(new.columns[1].to_pylist()[:32])


def by_plain_loop(checkpoints: Checkpoints, layers: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    session = checkpoints.open()
    loss = torch.nn.CrossEntropyLoss(weight=torch.tensor([1.0, 3.0, 0.5]))
    total, own = np.zeros((32, 4)), np.zeros(32)
    for place, read in enumerate(checkpoints.states):
        session.restore(read())
        net = session.model.eval()
        parameters = [parameter for name in layers for parameter in net.get_submodule(name).parameters()]

        def gradient(x: np.ndarray, y: np.ndarray, net: Any = net, parameters: Any = parameters) -> torch.Tensor:
            value = loss(net(torch.tensor(x)[None]), torch.tensor([y]))
            return torch.cat([part.flatten() for part in torch.autograd.grad(value, parameters)])

        train = torch.stack([gradient(x, y) for x, y in zip(*drawn(32, 0), strict=True)])
        targets = torch.stack([gradient(x, y) for x, y in zip(*drawn(4, 1), strict=True)])
        rate = 0.2 * 0.5 ** (place + 1)
        total += rate * (train @ targets.T).numpy()
        own += rate * (train * train).sum(dim=1).numpy()
    return total, own


@pytest.mark.parametrize("layers", [("4",), ("0", "4"), ("1",), ("0", "1", "4")])
def test_influence_equals_a_plain_loop(trained: Checkpoints, layers: tuple[str, ...]) -> None:
    for ours, theirs in zip(influence(trained, layers), by_plain_loop(trained, layers), strict=True):
        assert np.allclose(ours, theirs, rtol=1e-4, atol=1e-6) and np.abs(theirs).max() > 1e-3


def test_influence_equals_captum(trained: Checkpoints) -> None:
    pytest.importorskip("captum", reason="pip install 'cerebro-spark[explain]'")
    from captum.influence import TracInCP
    from torch.utils.data import TensorDataset

    session = trained.open()

    def load(net: torch.nn.Module, number: str) -> float:
        session.restore(trained.states[int(number)]())
        session.model.eval()
        return 0.2 * 0.5 ** (int(number) + 1)

    features, labels = drawn(32, 0)
    tracin = TracInCP(
        model=session.model,
        train_dataset=TensorDataset(torch.tensor(features), torch.tensor(labels)),
        checkpoints=["0", "1", "2"],
        checkpoints_load_func=load,
        layers=["4"],
        loss_fn=torch.nn.CrossEntropyLoss(weight=torch.tensor([1.0, 3.0, 0.5]), reduction="none"),
        batch_size=8,
        sample_wise_grads_per_batch=False,
    )
    x, y = drawn(4, 1)
    theirs = tracin.influence((torch.tensor(x), torch.tensor(y)))
    # captum does not divide the loss of a single row by the weight of its class, as the mean over a batch of one does.
    weights = np.array([1.0, 3.0, 0.5])
    scale = weights[y][:, None] * weights[labels][None, :]
    assert np.allclose(influence(trained, ("4",))[0].T * scale, theirs.numpy(), rtol=1e-3, atol=1e-5)


def test_the_last_layer_is_the_last_that_runs() -> None:
    class Backwards(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = torch.nn.Linear(4, 2)
            self.body = torch.nn.Linear(5, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(x))

    def backwards(params: dict[str, Any]) -> ModelTrainer:
        net = Backwards()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss())

    session = open_session(backwards, {}, 0)
    assert last_layer(session, [drawn(4, 0)[0]]) == "head"


def test_frozen_layers_have_gradients_too(trained: Checkpoints) -> None:
    session = trained.open()
    features, labels = drawn(6, 3)
    expected = [row_gradients(session, [features], labels, [name]).squared_norms() for name in ("4", "1")]
    session.model.requires_grad_(requires_grad=False)
    ours = [row_gradients(session, [features], labels, [name]).squared_norms() for name in ("4", "1")]
    assert np.allclose(ours, expected)
    assert not any(parameter.requires_grad for parameter in session.model.parameters()), "they stay frozen"


def test_unknown_layers_and_frameworks_are_refused(trained: Checkpoints) -> None:
    session = trained.open()
    features, labels = drawn(2, 0)
    with pytest.raises(InvalidArgumentError, match=r"layers must name modules of the network, got 'head'.*0, 1, 2"):
        row_gradients(session, [features], labels, ["head"])
    with pytest.raises(InvalidArgumentError, match="layers must have parameters, got '2', which has none"):
        row_gradients(session, [features], labels, ["2"])
    with pytest.raises(InvalidArgumentError, match="of torch or Keras for influences, got one of an unknown"):
        gradients_of(SimpleNamespace(model=object()))
