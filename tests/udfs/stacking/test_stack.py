"""A stack trains each session as training it alone does: weights, state, schedule, random numbers and sums."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional
from torch.optim import SGD, Adam, AdamW
from torch.optim.lr_scheduler import OneCycleLR, ReduceLROnPlateau, StepLR

from udfs.handlers import ModelTrainer, open_session
from udfs.packing import unpack
from udfs.shards import Tensors
from udfs.stacking import Stack, StackDecision, _reasons, unstackable_reason
from udfs.training import Diverged, TrainerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from udfs.training import Session

ROWS, WIDTH, BATCH, MODELS = 44, 5, 16, 3

Trainer = "Callable[[dict[str, Any]], ModelTrainer]"


def rows(count: int = ROWS, *, seed: int = 0, dtype: Any = np.float32, weighted: bool = False) -> Tensors:
    draw = np.random.default_rng(seed)
    inputs, labels = draw.normal(size=(count, WIDTH)).astype(dtype), draw.integers(0, 3, count)
    weights = draw.uniform(0.2, 3, count).astype(np.float32) if weighted else None
    return Tensors((inputs,), (labels,), count, weights)


def perceptron() -> Any:
    layers = (torch.nn.Linear(WIDTH, 8, bias=False), torch.nn.BatchNorm1d(8), torch.nn.ReLU())
    return torch.nn.Sequential(*layers, torch.nn.Dropout(0.3), torch.nn.Linear(8, 3))


def plain() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))


def trainer_fn(
    optimizer: Any, network: Any = perceptron, *, loss: Any = None, double: bool = False, **settings: Any
) -> Callable[[dict[str, Any]], ModelTrainer]:
    def make(params: dict[str, Any]) -> ModelTrainer:
        net = network().double() if double else network()
        stepper = optimizer(net.parameters(), params["number"])
        options = dict(settings)
        if "scheduler" in settings:
            options["scheduler"] = settings["scheduler"](stepper)
        criterion = torch.nn.CrossEntropyLoss() if loss is None else loss
        trainer = ModelTrainer(model=net, optimizer=stepper, loss=criterion, metrics=["accuracy"], batch_size=BATCH)
        return ModelTrainer(**{**vars(trainer), **options})

    return make


def opened(make: Callable[[dict[str, Any]], ModelTrainer], *, weighted: bool = False, count: int = MODELS) -> list[Any]:
    return [open_session(make, {"number": number}, number, weighted=weighted) for number in range(count)]


def order(epoch: int, number: int, count: int) -> Any:
    return np.random.default_rng([epoch, number]).permutation(count)


def assert_close(one: Any, other: Any, tolerance: float, path: str = "") -> None:
    if isinstance(one, dict):
        assert one.keys() == other.keys(), path
        for name, value in one.items():
            assert_close(value, other[name], tolerance, f"{path}.{name}")
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other), path
        for place, (value, twin) in enumerate(zip(one, other, strict=True)):
            assert_close(value, twin, tolerance, f"{path}.{place}")
    elif isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape), path
        exact = tolerance if one.dtype.kind == "f" else 0
        np.testing.assert_allclose(one, other, rtol=exact, atol=exact, err_msg=path)
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=tolerance, abs=tolerance), path
    else:
        assert one == other, path


def state(session: Session) -> Any:
    return unpack(session.checkpoint(), lambda array, _kind: np.array(array))


def train(sessions: Sequence[Any], data: Sequence[Tensors], *, stack: Stack | None = None, epochs: int = 3) -> Any:
    """Train some units, with the order of each session; every other unit ends an epoch."""
    outcome: Any = None
    for epoch in range(epochs):
        orders = [order(epoch, number, each.rows) for number, each in enumerate(data)]
        ends = epoch % 2 == 1
        if stack is not None:
            outcome = stack.train(data, orders, ends_epoch=ends)
        else:
            parts = zip(sessions, data, orders, strict=True)
            outcome = [each.train(part, places, ends_epoch=ends) for each, part, places in parts]
    return outcome


def assert_as_alone(make: Any, data: Sequence[Tensors], *, tolerance: float = 1e-5, weighted: bool = False) -> None:
    alone = opened(make, weighted=weighted, count=len(data))
    together = opened(make, weighted=weighted, count=len(data))
    assert unstackable_reason(together) is None
    stack = Stack(together, mode="always")
    assert_close(train(alone, data), train(together, data, stack=stack), tolerance)
    for one, other in zip(alone, together, strict=True):
        assert_close(state(one), state(other), tolerance)
    for evaluated in ([data[0]] * len(data), data):
        for one, part, sums in zip(alone, evaluated, stack.evaluate(evaluated), strict=True):
            assert_close(one.evaluate(part), sums, tolerance)


OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda parameters, number: SGD(parameters, lr=0.05 * (number + 1)),
    "momentum": lambda parameters, number: SGD(
        parameters, lr=0.05, momentum=0.4 * number, nesterov=number == 1, weight_decay=0.01 * number
    ),
    "dampening": lambda parameters, number: SGD(parameters, lr=0.05, momentum=0.9, dampening=0.2 * number),
    "adam": lambda parameters, number: Adam(
        parameters, lr=0.01 * (number + 1), weight_decay=0.1 * number, betas=(0.8, 0.9 + 0.03 * number)
    ),
    "amsgrad": lambda parameters, number: Adam(parameters, lr=0.01, amsgrad=True, maximize=number == 2),
    "adamw": lambda parameters, number: AdamW(parameters, lr=0.01, weight_decay=0.2 * number, eps=1e-6 * (number + 1)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_stack_trains_as_each_model_alone(name: str) -> None:
    assert_as_alone(trainer_fn(OPTIMIZERS[name]), [rows()] * MODELS)


@pytest.mark.parametrize("name", ["momentum", "adam"])
def test_double_precision_agrees_to_nine_digits(name: str) -> None:
    make = trainer_fn(OPTIMIZERS[name], double=True)
    assert_as_alone(make, [rows(dtype=np.float64)] * MODELS, tolerance=1e-9)


@pytest.mark.parametrize("drop_last", [False, True])
def test_models_with_other_rows_of_other_lengths(drop_last: bool) -> None:
    data = [rows(count, seed=count) for count in (20, 300, 35)]
    assert_as_alone(trainer_fn(OPTIMIZERS["adam"], drop_last=drop_last), data)


def test_weights_of_rows_count() -> None:
    assert_as_alone(trainer_fn(OPTIMIZERS["adam"]), [rows(weighted=True)] * MODELS, weighted=True)


@pytest.mark.parametrize(
    ("scheduler", "interval"),
    [(lambda optimizer: OneCycleLR(optimizer, 0.1, total_steps=40), "batch"), (lambda o: StepLR(o, 1, 0.5), "epoch")],
)
def test_schedules_are_those_of_each_model(scheduler: Any, interval: str, recwarn: pytest.WarningsRecorder) -> None:
    make = trainer_fn(OPTIMIZERS["momentum"], scheduler=scheduler, scheduler_step=interval)
    assert_as_alone(make, [rows()] * MODELS)
    assert not [warning for warning in recwarn if "lr_scheduler" in str(warning.message)]


def test_a_schedule_that_follows_the_metric_goes_on() -> None:
    make = trainer_fn(OPTIMIZERS["sgd"], plain, scheduler=lambda optimizer: ReduceLROnPlateau(optimizer, patience=0))
    alone, together = opened(make), opened(make)
    for sessions in (alone, together):
        for session in sessions:
            session.follow_metric(1.0)
            session.follow_metric(2.0)
    train(alone, [rows()] * MODELS)
    train(together, [rows()] * MODELS, stack=Stack(together, mode="always"))
    for one, other in zip(alone, together, strict=True):
        assert_close(state(one), state(other), 1e-5)


def squared(outputs: Any, labels: Any) -> Any:
    return ((outputs - functional.one_hot(labels, 3)) ** 2).mean()


def test_a_loss_of_the_user_gets_the_same_labels() -> None:
    assert_as_alone(trainer_fn(OPTIMIZERS["sgd"], plain, loss=squared), [rows()] * MODELS)


class Shared(torch.nn.Module):
    """Tied weights, a parameter that the forward pass leaves out, a frozen one, and dropout as a function."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(WIDTH, WIDTH)
        self.second = torch.nn.Linear(WIDTH, WIDTH)
        self.second.weight = self.first.weight
        self.unused = torch.nn.Linear(2, 2)
        self.last = torch.nn.Linear(WIDTH, 3)
        self.last.bias.requires_grad_(False)
        self.register_buffer("seen", torch.zeros(()), persistent=False)

    def forward(self, inputs: Any) -> Any:
        if self.training:
            self.seen.add_(1)
        return self.last(functional.dropout(self.second(self.first(inputs).relu()), 0.2, self.training))


def test_tied_unused_and_frozen_parameters() -> None:
    def grouped(parameters: Any, number: int) -> Any:
        first, *others = list(parameters)
        slow = {"params": [first], "lr": 0.001 * (number + 1), "weight_decay": 0.0}
        return Adam([slow, {"params": others, "weight_decay": 0.1}], lr=0.02)

    assert_as_alone(trainer_fn(grouped, Shared), [rows()] * MODELS)


def test_a_model_leaves_and_goes_on_alone() -> None:
    make, data = trainer_fn(OPTIMIZERS["adam"]), [rows()] * MODELS
    alone, together = opened(make), opened(make)
    stack = Stack(together, mode="always")
    train(alone, data)
    train(together, data, stack=stack)
    left = stack.remove(1)
    assert left is together[1]
    assert stack.sessions == (together[0], together[2])
    left.train(rows(), order(9, 1, ROWS), ends_epoch=True)
    stack.train(data[:2], [order(9, number, ROWS) for number in (0, 2)], ends_epoch=True)
    for number, one in enumerate(alone):
        one.train(rows(), order(9, number, ROWS), ends_epoch=True)
        assert_close(state(one), state(together[number]), 1e-5)


def test_a_model_that_diverges_leaves_the_others_alone() -> None:
    def optimizer(parameters: Any, number: int) -> Any:
        return SGD(parameters, lr=1e30 if number == 1 else 0.05)

    make = trainer_fn(optimizer, plain, loss=squared)
    alone, together = opened(make), opened(make)
    with pytest.raises(Diverged) as expected:
        alone[1].train(rows(), order(0, 1, ROWS), ends_epoch=False)
    first, diverged, last = Stack(together, mode="always").train(
        [rows()] * MODELS, [order(0, number, ROWS) for number in range(MODELS)], ends_epoch=False
    )
    assert isinstance(diverged, Diverged)
    assert str(diverged) == str(expected.value)
    for number, sums in ((0, first), (2, last)):
        assert_close(alone[number].train(rows(), order(0, number, ROWS), ends_epoch=False), sums, 1e-5)
        assert_close(state(alone[number]), state(together[number]), 1e-5)


def test_pixels_of_eight_bits_are_divided() -> None:
    draw = np.random.default_rng(3)
    data = Tensors((draw.integers(0, 255, (ROWS, WIDTH)).astype(np.uint8),), (draw.integers(0, 3, ROWS),), ROWS)
    assert_as_alone(trainer_fn(OPTIMIZERS["sgd"], plain), [data] * MODELS)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"network": lambda: torch.nn.Linear(WIDTH, 4)}, "architectures differ: weight (3, 5)"),
        ({"network": lambda: torch.nn.Sequential(torch.nn.Linear(WIDTH, 3))}, "architectures differ"),
        ({"optimizer": OPTIMIZERS["adam"]}, "optimizer=Adam"),
        ({"optimizer": lambda parameters, _number: torch.optim.RMSprop(parameters)}, "got RMSprop"),
        ({"loss": torch.nn.CrossEntropyLoss(label_smoothing=0.1)}, "loss="),
        ({"loss": torch.nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]))}, "loss"),
        ({"batch_size": 8}, "batch_size=8"),
        ({"freeze_until": {0: None}}, "freeze_until"),
    ],
)
def test_sessions_that_differ_have_a_reason(change: dict[str, Any], words: str) -> None:
    settings: dict[str, Any] = {"optimizer": OPTIMIZERS["sgd"], "network": lambda: torch.nn.Linear(WIDTH, 3)}
    sessions = [opened(trainer_fn(**settings), count=1)[0], opened(trainer_fn(**(settings | change)), count=1)[0]]
    reason = unstackable_reason(sessions)
    assert reason is not None
    assert words in reason
    with pytest.raises(TrainerError, match="Train each alone"):
        Stack(sessions)


def test_activations_of_the_same_shape_differ() -> None:
    def network(kind: Any) -> Any:
        return torch.nn.Sequential(torch.nn.Linear(WIDTH, 3), kind())

    kinds = (torch.nn.ReLU, torch.nn.Tanh)
    sessions = [opened(trainer_fn(OPTIMIZERS["sgd"], lambda kind=kind: network(kind)), count=1)[0] for kind in kinds]
    assert "ReLU" in str(unstackable_reason(sessions))


class Noisy(torch.nn.Linear):
    """A network that draws other random numbers than dropout's."""

    def forward(self, inputs: Any) -> Any:
        return super().forward(inputs + torch.rand_like(inputs) * 1e-6)


class Branching(torch.nn.Linear):
    """A network whose operations depend on values, which has no batched form."""

    def forward(self, inputs: Any) -> Any:
        outputs = super().forward(inputs)
        return outputs if outputs.sum() > 0 else 2 * outputs


class Counting(torch.nn.Linear):
    """A network with state in an attribute."""

    calls = 0

    def forward(self, inputs: Any) -> Any:
        self.calls += 1
        return super().forward(inputs) / self.calls


@pytest.mark.parametrize(
    ("kind", "words"), [(Noisy, "drawn by dropout"), (Branching, "vmap"), (Counting, "state in attributes")]
)
def test_what_has_no_equal_batched_form_trains_alone_bit_for_bit(kind: Any, words: str) -> None:
    make, data = trainer_fn(OPTIMIZERS["adam"], lambda: kind(WIDTH, 3)), [rows(100)] * MODELS
    alone, together = opened(make), opened(make)
    stack = Stack(together)
    train(alone, data, epochs=1)
    train(together, data, stack=stack, epochs=1)
    assert words in stack.decision.refusal
    for one, other in zip(alone, together, strict=True):
        assert one.checkpoint() == other.checkpoint()


@pytest.mark.parametrize("faster", [False, True])
def test_a_measured_unit_trains_as_each_model_alone(faster: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StackDecision, "is_stacked", lambda _decision, _steps: faster)
    make, data = trainer_fn(OPTIMIZERS["adam"]), [rows(count, seed=count) for count in (140, 155, 170)]
    alone, together = opened(make), opened(make)
    first = train(alone, data)
    stack = Stack(together)
    assert_close(first, train(together, data, stack=stack), 1e-5)
    for one, other in zip(alone, together, strict=True):
        assert_close(state(one), state(other), 1e-5)
        assert faster or one.checkpoint() == other.checkpoint()


def test_the_faster_way_is_chosen_for_the_length_of_a_unit() -> None:
    decision = StackDecision(4)
    decision.record(alone=1.0, stacked=50.0, setup=9.0)  # the first round loads code
    assert decision.is_open
    for alone, stacked in ((1.0, 0.6), (1.2, 0.5), (1.1, 0.9)):
        decision.record(alone=alone, stacked=stacked, setup=2.0)
    assert not decision.is_open
    assert [steps for steps in range(1, 10) if decision.is_stacked(steps)] == [5, 6, 7, 8, 9]
    slow = StackDecision(4)
    for _ in range(2):
        slow.record(alone=1.0, stacked=1.4, setup=0.0)
    assert not slow.is_open
    assert not slow.is_stacked(1000)


def test_models_of_keras_train_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = opened(trainer_fn(OPTIMIZERS["sgd"]))
    monkeypatch.setattr(_reasons, "framework_of", lambda _model: SimpleNamespace(name="keras"))
    assert unstackable_reason(sessions) == "models of keras train one by one"
