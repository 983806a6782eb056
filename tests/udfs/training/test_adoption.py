"""Clones: a new trainer goes on from another's weights and moments, with hyperparameters of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from udfs.handlers import ModelTrainer, open_session
from udfs.handlers.torch._session import as_tensor
from udfs.packing import StateError, unpack
from udfs.shards import Tensors
from udfs.training import TrainingFunctions

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, WIDTH, BATCH = 48, 4, 16

OPTIMIZERS: dict[str, Callable[[Any, float], Any]] = {
    "Adam": lambda parameters, lr: torch.optim.Adam(parameters, lr, betas=(0.8, 0.9)),
    "AdamW": lambda parameters, lr: torch.optim.AdamW(parameters, lr, weight_decay=0.1, amsgrad=True),
    "SGD": lambda parameters, lr: torch.optim.SGD(parameters, lr, momentum=0.9, nesterov=True),
    "plain SGD": torch.optim.SGD,
    "RMSprop": lambda parameters, lr: torch.optim.RMSprop(parameters, lr, centered=True, momentum=0.5),
    "Adagrad": torch.optim.Adagrad,
    "Adafactor": torch.optim.Adafactor,
}

SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "exponential": lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9),
    "lambda": lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, _halved),
    "cosine": lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20),
    "chained": lambda optimizer: torch.optim.lr_scheduler.ChainedScheduler(
        [torch.optim.lr_scheduler.ConstantLR(optimizer, 0.5, 4), torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)]
    ),
    "in turn": lambda optimizer: torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [torch.optim.lr_scheduler.LinearLR(optimizer), torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)],
        [3],
    ),
}


def _halved(epoch: int) -> float:
    return 0.5**epoch


def data() -> Tensors:
    inputs = np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float32)
    return Tensors((inputs,), ((inputs.sum(axis=1) > 0).astype(np.int64),), ROWS)


def network(hidden: int = 5) -> Any:
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, hidden), torch.nn.BatchNorm1d(hidden), torch.nn.Linear(hidden, 2))


def trainer(params: dict[str, Any]) -> ModelTrainer:
    net = params.get("net", network)()
    optimizer = OPTIMIZERS[params.get("optimizer", "Adam")](net.parameters(), params.get("lr", 0.05))
    for name, value in params.get("group", {}).items():
        optimizer.param_groups[0][name] = value
    scheduler = SCHEDULERS[params["scheduler"]](optimizer) if "scheduler" in params else None
    return ModelTrainer(
        model=net,
        optimizer=optimizer,
        loss=torch.nn.CrossEntropyLoss(),
        batch_size=BATCH,
        scheduler=scheduler,
        scheduler_step=params.get("step", "epoch"),
    )


def unit(session: Any) -> None:
    session.train(data(), np.arange(ROWS), ends_epoch=True)


def trained(**params: Any) -> Any:
    session = open_session(trainer, params, 1)
    for _ in range(2):
        unit(session)
    return session


def steps(net: Any, optimizer: Any) -> None:
    """An ordinary epoch."""
    net.train()
    rows = data()
    for start in range(0, ROWS, BATCH):
        optimizer.zero_grad()
        picked = slice(start, start + BATCH)
        outputs = net(torch.from_numpy(rows.inputs[0][picked]))
        torch.nn.functional.cross_entropy(outputs, torch.from_numpy(rows.labels[0][picked])).backward()
        optimizer.step()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_clone_equals_a_plain_loop_whose_rate_is_changed(optimizer: str) -> None:
    source = trained(optimizer=optimizer)
    clone = open_session(trainer, {"optimizer": optimizer, "lr": 0.01}, 2)
    clone.adopt(source.checkpoint())
    unit(clone)
    torch.manual_seed(1)
    net = network()
    plain = OPTIMIZERS[optimizer](net.parameters(), 0.05)
    for _ in range(2):
        steps(net, plain)
    plain.param_groups[0]["lr"] = 0.01
    steps(net, plain)
    for name, value in net.state_dict().items():
        assert torch.equal(clone.model.state_dict()[name], value), name


@pytest.mark.parametrize("step", ["epoch", "batch"])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_scheduler_goes_on_at_the_sources_step_from_its_own_base(scheduler: str, step: str) -> None:
    """So the rate is that of a trainer with the new base rate that has trained as long."""
    source = trained(scheduler=scheduler, step=step, lr=0.05)
    own = trained(scheduler=scheduler, step=step, lr=0.002)
    clone = open_session(trainer, {"scheduler": scheduler, "step": step, "lr": 0.002}, 2)
    clone.adopt(source.checkpoint())
    rates = []
    for session in (clone, own):
        for _ in range(3):
            unit(session)
            rates.append(unpack(session.checkpoint(), as_tensor)["optimizer"]["param_groups"][0]["lr"])
    assert rates[:3] == rates[3:]


def test_every_entry_of_a_group_but_its_parameters_is_the_new_one() -> None:
    source = trained()
    clone = open_session(trainer, {"group": {"betas": (0.5, 0.6), "weight_decay": 0.3, "eps": 1e-3}}, 2)
    before = unpack(clone.checkpoint(), as_tensor)["optimizer"]["param_groups"]
    clone.adopt(source.checkpoint())
    assert unpack(clone.checkpoint(), as_tensor)["optimizer"]["param_groups"] == before
    clone.adopt(source.checkpoint())
    resumed = open_session(trainer, {}, 3)
    resumed.restore(clone.checkpoint())
    assert resumed.checkpoint() == clone.checkpoint()


def test_random_numbers_are_of_the_clones_own_seed() -> None:
    source = trained()
    states = []
    for seed in (2, 2, 3):
        clone = open_session(trainer, {}, seed)
        own = clone.checkpoint()
        clone.adopt(source.checkpoint())
        assert str(clone.random) == str(unpack(own, as_tensor)["random"])
        states.append(clone.checkpoint())
    assert states[0] == states[1] != states[2]


@pytest.mark.parametrize("optimizer", [name for name in OPTIMIZERS if name != "Adafactor"])
def test_a_clone_with_a_rate_of_zero_does_not_move(optimizer: str) -> None:
    source = trained(optimizer=optimizer)
    clone = open_session(trainer, {"optimizer": optimizer, "lr": 0.0}, 2)
    clone.adopt(source.checkpoint())
    unit(clone)
    for (name, value), other in zip(clone.model.named_parameters(), source.model.parameters(), strict=True):
        assert torch.equal(value, other), name


def _deeper() -> Any:
    return torch.nn.Sequential(*network(), torch.nn.Linear(2, 2))


def _shallower() -> Any:
    return network()[:2]


def _wider() -> Any:
    return network(7)


@pytest.mark.parametrize(
    ("source", "params", "message"),
    [
        ({}, {"net": _wider}, r"tensor 0\.weight is \(5, 4\) in the source and \(7, 4\) in the new model"),
        ({}, {"net": _deeper}, r"the source has no tensor 3\.weight"),
        ({}, {"net": _shallower}, r"the source has a tensor 2\.weight, which the new model has not"),
        ({}, {"optimizer": "plain SGD"}, "is Adam in the source and SGD in the new"),
        ({}, {"group": {"amsgrad": True}}, r"the source's Adam has no max_exp_avg_sq of 0\.weight"),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_is_taken(
    source: dict[str, Any], params: dict[str, Any], message: str
) -> None:
    state = trained(**source).checkpoint()
    clone = open_session(trainer, params, 2)
    before = clone.checkpoint()
    with pytest.raises(StateError, match=message):
        clone.adopt(state)
    assert clone.checkpoint() == before


def test_slots_begin_anew_where_the_source_had_none_and_end_where_they_are_not_used() -> None:
    for momenta in ((0.0, 0.9), (0.9, 0.0)):
        source = trained(optimizer="plain SGD", group={"momentum": momenta[0]})
        clone = open_session(trainer, {"optimizer": "plain SGD", "group": {"momentum": momenta[1]}}, 2)
        clone.adopt(source.checkpoint())
        assert not unpack(clone.checkpoint(), as_tensor)["optimizer"]["state"].get(0, {})
        unit(clone)


def test_a_users_own_function_is_cloned_too() -> None:
    def model_fn(params: dict[str, Any]) -> tuple[Any, Any]:
        net = network()
        return net, torch.optim.Adam(net.parameters(), lr=params["lr"])

    def train_fn(rows: Any, model: Any, optimizer: Any, _params: dict[str, Any]) -> dict[str, float]:
        loss = torch.nn.functional.cross_entropy(
            model(torch.from_numpy(rows.inputs[0])), torch.from_numpy(rows.labels[0])
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return {"loss": loss.item()}

    functions = TrainingFunctions(model_fn=model_fn, train_fn=train_fn)
    source, still = (open_session(lambda _params: functions, {"lr": lr}, 3) for lr in (0.1, 0.0))
    unit(source)
    still.adopt(source.checkpoint())
    unit(still)
    for value, other in zip(still.model.parameters(), source.model.parameters(), strict=True):
        assert torch.equal(value, other)


@pytest.mark.extended
def test_keras_clones_equal_a_plain_loop() -> None:
    keras = pytest.importorskip("keras")

    def net(width: int, dropout: float) -> Any:
        hidden = [keras.layers.Dense(width), keras.layers.BatchNormalization(), keras.layers.Dense(2)]
        return keras.Sequential([keras.Input((WIDTH,)), *hidden, *([keras.layers.Dropout(dropout)] if dropout else [])])

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def make(params: dict[str, Any]) -> ModelTrainer:
        rate: Any = params["lr"]
        if params.get("decay"):
            rate = keras.optimizers.schedules.ExponentialDecay(rate, 4, 0.5)
        kind = getattr(keras.optimizers, params.get("optimizer", "Adam"))
        return ModelTrainer(
            model=net(params.get("hidden", 5), params.get("dropout", 0.0)),
            optimizer=kind(rate, **params.get("more", {})),
            loss=loss,
            batch_size=BATCH,
        )

    def plain(made: ModelTrainer) -> None:
        rows = data()
        for start in range(0, ROWS, BATCH):
            picked = slice(start, start + BATCH)
            made.model.train_on_batch(rows.inputs[0][picked], rows.labels[0][picked])

    for decay in (False, True):
        source = open_session(make, {"lr": 0.05, "decay": decay}, 1)
        unit(source)
        clone = open_session(make, {"lr": 0.01, "decay": decay}, 2)
        clone.adopt(source.checkpoint())
        unit(clone)
        keras.utils.set_random_seed(1)
        made = make({"lr": 0.05, "decay": decay})
        made.model.compile(optimizer=made.optimizer, loss=loss, jit_compile=False)
        plain(made)
        moments = [variable.numpy() for variable in made.optimizer.variables if variable.name != "learning_rate"]
        weights = made.model.get_weights()
        made = make({"lr": 0.01, "decay": decay})
        made.model.compile(optimizer=made.optimizer, loss=loss, jit_compile=False)
        made.optimizer.build(made.model.trainable_variables)
        made.model.set_weights(weights)
        others = [variable for variable in made.optimizer.variables if variable.name != "learning_rate"]
        for variable, value in zip(others, moments, strict=True):
            variable.assign(value)
        plain(made)
        for one, other in zip(clone.model.get_weights(), made.model.get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)
    # Its dropout draws from its own seed.
    one, two = (
        open_session(make, {"lr": 0.01, "decay": True, "dropout": 0.5}, seed).model.variables[-1].numpy()
        for seed in (2, 2)
    )
    dropping = [open_session(make, {"lr": 0.01, "dropout": 0.5}, seed) for seed in (1, 2)]
    unit(dropping[0])
    dropping[1].adopt(dropping[0].checkpoint())
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(dropping[1].model.variables[-1].numpy(), one)
    assert (dropping[0].model.variables[-1].numpy() != one).any()
    # From a rate to a schedule: the one has a variable for it, the other has none.
    open_session(make, {"lr": 0.01}, 2).adopt(source.checkpoint())
    for params, message in (
        ({"hidden": 7}, r"kernel of the new model is \(4, 7\), and that of the source in its place is \(4, 5\)"),
        ({"optimizer": "SGD"}, "is Adam in the source and SGD"),
        ({"more": {"amsgrad": True}}, "the source's optimizer has no variable in the place of adam"),
    ):
        refusing = open_session(make, {"lr": 0.01, **params}, 2)
        before = refusing.checkpoint()
        with pytest.raises(StateError, match=message):
            refusing.adopt(source.checkpoint())
        assert refusing.checkpoint() == before
