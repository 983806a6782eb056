"""State of modules outside of the state dict hops with the model, bit for bit, or is refused by its name."""

from __future__ import annotations

import random
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from udfs.handlers import ModelTrainer, open_session, try_step
from udfs.shards import Tensors
from udfs.training import TrainerError

if TYPE_CHECKING:
    from collections.abc import Callable


class Counting(torch.nn.Module):
    """A module whose outputs depend on an attribute that training changes."""

    def __init__(self, first: Any, change: Callable[[Any], Any], read: Callable[[Any], Any]) -> None:
        super().__init__()
        self.net, self.seen = torch.nn.Linear(4, 2), first
        self.change, self.read = change, read

    def forward(self, x: Any) -> Any:
        if self.training:
            self.seen = self.change(self.seen)
        return self.net(x) * (1 + 0.1 * self.read(self.seen))


def drawn(generator: Any) -> Any:
    generator.random()
    return generator


def drawn_of_torch(generator: Any) -> Any:
    torch.rand(1, generator=generator)
    return generator


def of_torch(generator: Any) -> Any:
    return generator.get_state().sum() % 7


def of_numpy(generator: Any) -> int:
    return int(generator.bit_generator.state["state"]["state"] % 7)


def appended(values: list[int]) -> list[int]:
    values.append(len(values))
    return values


KINDS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "number": (lambda: 0, lambda seen: seen + 1, float),
    "float": (lambda: 1.0, lambda seen: seen * 0.9, float),
    "text": (lambda: "", lambda seen: seen + "a", len),
    "list": (list, appended, sum),
    "mapping": (lambda: {"n": 0}, lambda seen: {"n": seen["n"] + 1}, lambda seen: seen["n"]),
    "none": (lambda: None, lambda seen: (seen or 0) + 1, lambda seen: seen or 0),
    "tensor": (lambda: torch.zeros(1), lambda seen: seen + 1, lambda seen: seen),
    "array": (lambda: np.zeros(1), lambda seen: seen + 1, lambda seen: float(seen[0])),
    "torch generator": (lambda: torch.Generator().manual_seed(1), drawn_of_torch, of_torch),
    "numpy generator": (lambda: np.random.default_rng(1), drawn, of_numpy),
    "Python generator": (lambda: random.Random(1), drawn, lambda seen: sum(seen.getstate()[1]) % 7),
}


class Scaled(torch.nn.Module):
    """A loss with a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(()))

    def forward(self, outputs: Any, labels: Any) -> Any:
        if outputs.requires_grad:
            self.scale += 0.5
        return torch.nn.functional.cross_entropy(outputs, labels.long()) * self.scale


class Hidden(torch.nn.Module):
    """A module with a buffer that its state dict leaves out."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(4, 2)
        self.register_buffer("seen", torch.zeros(()), persistent=False)

    def forward(self, x: Any) -> Any:
        if self.training:
            self.seen += 1
        return self.net(x) * (1 + self.seen)


class Warmed(torch.optim.SGD):
    """An optimizer that counts its steps."""

    count = 0

    def step(self, closure: Any = None) -> Any:
        self.count += 1
        for group in self.param_groups:
            group["lr"] = 0.01 * self.count
        return super().step(closure)


ROWS = Tensors((np.random.default_rng(0).normal(size=(24, 4)).astype(np.float32),), (np.arange(24) % 2,), 24)


def trainer(make: Callable[[], Any], loss: Any = None, optimizer: Any = torch.optim.SGD) -> Callable[..., ModelTrainer]:
    def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
        net = make()
        return ModelTrainer(
            model=net,
            optimizer=optimizer(net.parameters(), lr=0.1),
            loss=torch.nn.CrossEntropyLoss() if loss is None else loss(),
            batch_size=8,
        )

    return trainer_fn


def assert_hops(trainer_fn: Callable[..., ModelTrainer]) -> None:
    try_step(open_session(trainer_fn, {}, 3), ROWS)
    stays = open_session(trainer_fn, {}, 3)
    first = state = stays.checkpoint()
    for _ in range(3):
        hopped = open_session(trainer_fn, {}, 3)
        hopped.restore(state)
        assert hopped.checkpoint() == state
        for session in (stays, hopped):
            session.train(ROWS, np.arange(24), ends_epoch=True)
        state = hopped.checkpoint()
        assert state == stays.checkpoint()
    # A worker that goes back to an earlier checkpoint.
    stays.restore(first)
    assert stays.checkpoint() == first


@pytest.mark.parametrize("kind", KINDS)
def test_plain_data_hops(kind: str) -> None:
    first, change, read = KINDS[kind]
    assert_hops(trainer(lambda: Counting(first(), change, read)))


def test_buffers_of_losses_hidden_buffers_and_optimizers_hop() -> None:
    assert_hops(trainer(lambda: torch.nn.Linear(4, 2), Scaled))
    assert_hops(trainer(Hidden))
    assert_hops(trainer(lambda: torch.nn.Linear(4, 2), optimizer=Warmed))


class Recurrent(torch.nn.Module):
    """An LSTM, whose attributes list its parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.last = torch.nn.LSTM(2, 3, batch_first=True, bidirectional=True), torch.nn.Linear(6, 2)

    def forward(self, x: Any) -> Any:
        return self.last(self.lstm(x.reshape(-1, 2, 2))[0][:, -1])


def test_the_list_of_the_parameters_of_an_lstm_is_no_state() -> None:
    assert_hops(trainer(Recurrent))


def test_the_graph_of_a_traced_module_is_no_state() -> None:
    """Its pickle has the mode and the weights of the module, which training changes."""

    def traced() -> torch.nn.Module:
        return torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)).eval())

    assert_hops(trainer(traced))


class Steps:
    count = 0


def counted(steps: Steps) -> Steps:
    steps.count += 1
    return steps


REFUSED: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = [
    (lambda: deque([0], 3), lambda seen: deque([*seen, 1], 3)),
    (set, lambda seen: {*seen, len(seen)}),
    (Steps, counted),
]


@pytest.mark.parametrize(("first", "change"), REFUSED)
def test_others_are_refused_by_name(first: Callable[[], Any], change: Callable[[Any], Any]) -> None:
    make = trainer(lambda: torch.nn.Sequential(Counting(first(), change, lambda _: 0)))
    with pytest.raises(TrainerError, match=r"must be plain data, .*, got model\.0\.seen: "):
        try_step(open_session(make, {}, 3), ROWS)
    # One that stays as it is may be anything.
    try_step(open_session(trainer(lambda: Counting(first(), lambda seen: seen, lambda _: 0)), {}, 3), ROWS)
