"""Optimizers and schedulers of the frameworks train, and hop bit for bit, or are refused at the trial step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.optim import lr_scheduler

from udfs.handlers import ModelTrainer, open_session, try_step
from udfs.shards import Tensors
from udfs.training import TrainerError

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, WIDTH, BATCH = 24, 4, 8

# Arguments without a default, or smaller than it for tiny units; None for an optimizer that the trial step refuses.
OPTIMIZERS: dict[str, dict[str, Any] | None] = {
    "ASGD": {},
    "Adadelta": {},
    "Adafactor": {},
    "Adagrad": {},
    "Adam": {"amsgrad": True},
    "AdamW": {},
    "Adamax": {},
    "LBFGS": {"line_search_fn": "strong_wolfe", "max_iter": 4},
    "Muon": {},
    "NAdam": {},
    "RAdam": {},
    "RMSprop": {"centered": True, "momentum": 0.5},
    "Rprop": {},
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    "SparseAdam": None,
}

SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "ChainedScheduler": lambda sgd: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(sgd, 0.5), lr_scheduler.ExponentialLR(sgd, 0.9)]
    ),
    "ConstantLR": lr_scheduler.ConstantLR,
    "CosineAnnealingLR": lambda sgd: lr_scheduler.CosineAnnealingLR(sgd, 3),
    "CosineAnnealingWarmRestarts": lambda sgd: lr_scheduler.CosineAnnealingWarmRestarts(sgd, 2),
    "CyclicLR": lambda sgd: lr_scheduler.CyclicLR(sgd, 0.01, 0.1, step_size_up=2),
    "ExponentialLR": lambda sgd: lr_scheduler.ExponentialLR(sgd, 0.9),
    "LambdaLR": lambda sgd: lr_scheduler.LambdaLR(sgd, lambda epoch: 1 / (1 + epoch)),
    "LinearLR": lr_scheduler.LinearLR,
    "MultiStepLR": lambda sgd: lr_scheduler.MultiStepLR(sgd, [1, 2]),
    "MultiplicativeLR": lambda sgd: lr_scheduler.MultiplicativeLR(sgd, lambda epoch: 0.9),
    "OneCycleLR": lambda sgd: lr_scheduler.OneCycleLR(sgd, 0.2, total_steps=50),
    "PolynomialLR": lr_scheduler.PolynomialLR,
    "ReduceLROnPlateau": lambda sgd: lr_scheduler.ReduceLROnPlateau(sgd, patience=0),
    "SWALR": lambda sgd: torch.optim.swa_utils.SWALR(sgd, swa_lr=0.01, anneal_epochs=3),
    "SequentialLR": lambda sgd: lr_scheduler.SequentialLR(
        sgd, [lr_scheduler.ConstantLR(sgd, 0.5, 1), lr_scheduler.ExponentialLR(sgd, 0.9)], [1]
    ),
    "StepLR": lambda sgd: lr_scheduler.StepLR(sgd, 1, 0.5),
}


def classes(module: Any, base: type) -> set[str]:
    return {
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, base) and value is not base and not name.startswith("_")
    }


def test_the_tables_are_complete() -> None:
    """A new release of torch with another class has to be tried."""
    assert classes(torch.optim, torch.optim.Optimizer) <= set(OPTIMIZERS)
    known = classes(lr_scheduler, lr_scheduler.LRScheduler) | classes(torch.optim.swa_utils, lr_scheduler.LRScheduler)
    assert known <= set(SCHEDULERS)


def rows() -> Tensors:
    draw = np.random.default_rng(1)
    inputs = draw.normal(size=(ROWS, WIDTH)).astype(np.float32)
    return Tensors((inputs,), ((inputs.sum(axis=1) > 0).astype(np.int64),), ROWS)


def hops(trainer_fn: Callable[[dict[str, Any]], ModelTrainer]) -> None:
    """Train three units in one session, and each in a session of its own."""
    data, order = rows(), np.arange(ROWS)
    stays = open_session(trainer_fn, {}, 3)
    state = stays.checkpoint()
    for unit in range(3):
        hopped = open_session(trainer_fn, {}, 3)
        hopped.restore(state)
        for session in (stays, hopped):
            if unit:
                session.follow_metric(1.0 + unit)
            session.train(data, order, ends_epoch=True)
        state = hopped.checkpoint()
        assert state == stays.checkpoint(), unit


def torch_trainer(make: Callable[[Any], Any], schedule: Any = None, step: str = "epoch") -> Callable[..., ModelTrainer]:
    def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
        net = torch.nn.Sequential(torch.nn.Linear(WIDTH, 3, bias=False), torch.nn.Linear(3, 2, bias=False))
        optimizer = make(net.parameters())
        return ModelTrainer(
            model=net,
            optimizer=optimizer,
            loss=torch.nn.CrossEntropyLoss(),
            batch_size=BATCH,
            scheduler=None if schedule is None else schedule(optimizer),
            scheduler_step=step,  # type: ignore[arg-type]
        )

    return trainer_fn


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_of_torch(name: str) -> None:
    settings = OPTIMIZERS[name]
    trainer_fn = torch_trainer(lambda parameters: getattr(torch.optim, name)(parameters, **settings or {}))
    if settings is None:
        with pytest.raises(RuntimeError, match=name):
            try_step(open_session(trainer_fn, {}, 3), rows())
        return
    try_step(open_session(trainer_fn, {}, 3), rows())
    hops(trainer_fn)


@pytest.mark.parametrize("step", ["epoch", "batch"])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedulers_of_torch(name: str, step: str) -> None:
    def sgd(parameters: Any) -> Any:
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.5)

    trainer_fn = torch_trainer(sgd, SCHEDULERS[name], step)
    if (name, step) == ("ReduceLROnPlateau", "batch"):
        with pytest.raises(TrainerError, match="scheduler_step must be 'epoch' for ReduceLROnPlateau"):
            open_session(trainer_fn, {}, 3)
        return
    try_step(open_session(trainer_fn, {}, 3), rows())
    hops(trainer_fn)


def test_a_plateau_steps_with_the_metric() -> None:
    trainer_fn = torch_trainer(
        lambda parameters: torch.optim.SGD(parameters, lr=0.8),
        lambda sgd: lr_scheduler.ReduceLROnPlateau(sgd, patience=0),
    )
    session = open_session(trainer_fn, {}, 3)
    sgd = session._trainer.optimizer
    rates = []
    for metric in (1.0, 0.5, 0.7, 0.6):
        session.train(rows(), np.arange(ROWS), ends_epoch=True)
        session.follow_metric(metric)
        rates.append(sgd.param_groups[0]["lr"])
    assert rates == [0.8, 0.8, pytest.approx(0.08), pytest.approx(0.008)]


def test_an_lbfgs_without_line_search_takes_one_batch() -> None:
    from types import SimpleNamespace

    trainer_fn = torch_trainer(torch.optim.LBFGS)
    data: Any = SimpleNamespace(shards=[SimpleNamespace(split="train", rows=BATCH)], input_specs=())
    open_session(trainer_fn, {}, 3, data=data)
    data.shards *= 2
    with pytest.raises(TrainerError, match=r"line_search_fn of LBFGS must be 'strong_wolfe'.*got None"):
        open_session(trainer_fn, {}, 3, data=data)


def keras_table() -> dict[str, Any]:
    keras = pytest.importorskip("keras")
    schedules = keras.optimizers.schedules
    base = keras.optimizers.Optimizer
    special: dict[str, Any] = {
        "LossScaleOptimizer": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01)),
        "MultiOptimizer": lambda: keras.optimizers.MultiOptimizer(lambda _: keras.optimizers.Adam(0.01)),
    }
    table = {
        name: special.get(name, value)
        for name, value in vars(keras.optimizers).items()
        if isinstance(value, type) and issubclass(value, base) and value is not base
    }
    rates = {
        "CosineDecay": lambda: schedules.CosineDecay(0.1, 6),
        "CosineDecayRestarts": lambda: schedules.CosineDecayRestarts(0.1, 4),
        "ExponentialDecay": lambda: schedules.ExponentialDecay(0.1, 4, 0.5),
        "InverseTimeDecay": lambda: schedules.InverseTimeDecay(0.1, 4, 0.5),
        "PiecewiseConstantDecay": lambda: schedules.PiecewiseConstantDecay([2, 5], [0.1, 0.05, 0.01]),
        "PolynomialDecay": lambda: schedules.PolynomialDecay(0.1, 6),
    }
    known = {
        name
        for name, value in vars(schedules).items()
        if isinstance(value, type) and value is not schedules.LearningRateSchedule
    }
    assert known == set(rates), "a new release with another schedule"
    return table | {f"SGD {name}": lambda made=made: keras.optimizers.SGD(made()) for name, made in rates.items()}


@pytest.mark.slow
def test_optimizers_and_schedules_of_keras() -> None:
    keras = pytest.importorskip("keras")
    for name, make in keras_table().items():

        def trainer_fn(params: dict[str, Any], make: Any = make) -> ModelTrainer:
            net = keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(3), keras.layers.Dense(2)])
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            return ModelTrainer(model=net, optimizer=make(), loss=loss, batch_size=BATCH)

        try:
            try_step(open_session(trainer_fn, {}, 3), rows())
            hops(trainer_fn)
        except Exception as error:
            raise AssertionError(name) from error
