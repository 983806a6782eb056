"""Losses of the user's own get labels in the shape and type that they take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from udfs.handlers import ModelTrainer, open_session
from udfs.shards import Tensors

if TYPE_CHECKING:
    from collections.abc import Callable

    from udfs.training import Session

WIDTH, ROWS = 3, 12
INPUTS = np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float32)
VALUES = INPUTS[:, 0] - INPUTS[:, 1]
CLASSES = (VALUES > 0).astype(np.int64)


def rows(labels: Any) -> Tensors:
    return Tensors((INPUTS,), (labels,), ROWS)


def torch_session(loss: Any, outputs: int) -> Session:
    def make(_params: dict[str, Any]) -> ModelTrainer:
        net = nn.Linear(WIDTH, outputs)
        return ModelTrainer(model=net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1), loss=loss)

    return open_session(make, {}, 1)


class Focal(nn.Module):
    def forward(self, outputs: Any, labels: Any) -> Any:
        entropy = functional.cross_entropy(outputs, labels, reduction="none")
        return ((1 - torch.exp(-entropy)) ** 2 * entropy).mean()


class Squares(nn.Module):
    """A loss of labels of shape (rows,): in the outputs' shape each would be compared with all outputs."""

    def forward(self, outputs: Any, labels: Any) -> Any:
        return (outputs[:, 0] - labels).square().mean()


class Contrast(nn.Module):
    """A loss of all pairs of rows, whatever the shape of the labels."""

    def forward(self, outputs: Any, labels: Any) -> Any:
        return ((outputs.reshape(-1, 1) - outputs.reshape(1, -1)) ** 2 * (labels.reshape(-1, 1) > 0)).mean()


LOSSES: dict[str, tuple[Any, int, Any, Callable[[Any, Any], Any]]] = {
    "function of the shape": (functional.mse_loss, 1, VALUES, nn.MSELoss()),
    "own function": (lambda o, y: (o - y).abs().mean(), 1, VALUES, nn.L1Loss()),
    "own root": (lambda o, y: (o - y).square().mean().sqrt(), 1, VALUES, lambda o, y: nn.MSELoss()(o, y).sqrt()),
    "own function of rows": (lambda o, y: (o[:, 0] - y).abs().mean(), 1, VALUES, nn.L1Loss()),
    "own module of rows": (Squares(), 1, VALUES, nn.MSELoss()),
    "chances as floats": (functional.binary_cross_entropy_with_logits, 1, CLASSES, nn.BCEWithLogitsLoss()),
    "own chances": (
        lambda o, y: functional.binary_cross_entropy_with_logits(o + 0, y),
        1,
        CLASSES,
        nn.BCEWithLogitsLoss(),
    ),
    "classes of doubles": (functional.cross_entropy, 2, CLASSES.astype(np.float32), nn.CrossEntropyLoss()),
    "own classes of doubles": (
        lambda o, y: functional.cross_entropy(o + 0, y),
        2,
        CLASSES.astype(np.float32),
        nn.CrossEntropyLoss(),
    ),
    "own module of classes": (Focal(), 2, CLASSES, Focal()),
    "own module, classes of doubles": (Focal(), 2, CLASSES.astype(np.float32), Focal()),
    "pairs": (Contrast(), 1, VALUES, Contrast()),
}


@pytest.mark.parametrize("name", LOSSES)
def test_of_torch(name: str) -> None:
    loss, outputs, labels, expected = LOSSES[name]
    session = torch_session(loss, outputs)
    (raw,) = session.predict((INPUTS,))
    truth = torch.from_numpy(labels)
    truth = truth.long() if outputs > 1 else truth.float()[:, None]
    found = session.sums.results(session.evaluate(rows(labels)))["loss"]
    assert found == pytest.approx(float(expected(torch.from_numpy(raw), truth)), rel=1e-5)


def test_a_trial_leaves_the_loss_as_it_was() -> None:
    class Counting(nn.Module):
        calls = 0

        def forward(self, outputs: Any, labels: Any) -> Any:
            self.calls += 1
            return (outputs + torch.rand(1) - labels).square().mean()

    loss = Counting()
    session = torch_session(loss, 1)
    before = torch.get_rng_state()
    session.evaluate(rows(VALUES))
    assert loss.calls == 1
    torch.set_rng_state(before)
    torch.rand(1)
    expected = torch.get_rng_state()
    torch.set_rng_state(before)
    torch_session(Counting(), 1).evaluate(rows(VALUES))
    torch.set_rng_state(before)
    session.evaluate(rows(VALUES))
    assert torch.equal(torch.get_rng_state(), expected)


class Column(keras.losses.Loss):  # type: ignore[misc] # Keras is untyped
    def call(self, y_true: Any, y_pred: Any) -> Any:
        return keras.ops.square(y_pred - y_true)


class Flat(keras.losses.Loss):  # type: ignore[misc] # Keras is untyped
    def call(self, y_true: Any, y_pred: Any) -> Any:
        return keras.ops.square(y_pred[:, 0] - y_true)


@pytest.mark.parametrize("loss", [Column(), Flat(), lambda y, o: keras.ops.mean(keras.ops.square(o - y))])
def test_of_keras(loss: Any) -> None:
    net = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(1)])
    session = open_session(lambda _: ModelTrainer(model=net, optimizer="sgd", loss=loss, batch_size=ROWS), {}, 1)
    (raw,) = session.predict((INPUTS,))
    expected = np.mean((raw[:, 0] - VALUES) ** 2)
    trained = session.sums.results(session.train(rows(VALUES), np.arange(ROWS), ends_epoch=True))
    assert trained["loss"] == pytest.approx(expected, rel=1e-5)
    (raw,) = session.predict((INPUTS,))
    found = session.sums.results(session.evaluate(rows(VALUES)))
    assert found["loss"] == pytest.approx(np.mean((raw[:, 0] - VALUES) ** 2), rel=1e-5)


def test_one_loss_of_keras_for_several_outputs() -> None:
    inputs = keras.Input((WIDTH,))
    net = keras.Model(inputs, [keras.layers.Dense(1)(inputs), keras.layers.Dense(1)(inputs)])
    session = open_session(lambda _: ModelTrainer(model=net, optimizer="sgd", loss=Column(), batch_size=ROWS), {}, 1)
    expected = sum(np.mean((raw[:, 0] - VALUES) ** 2) for raw in session.predict((INPUTS,)))
    data = Tensors((INPUTS,), (VALUES, VALUES), ROWS)
    assert session.sums.results(session.evaluate(data))["loss"] == pytest.approx(expected, rel=1e-5)
