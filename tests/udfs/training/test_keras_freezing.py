"""Freezing schedules of Keras: a session that hops does as a plain loop that switches ``layer.trainable``."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

keras = pytest.importorskip("keras")
pytest.importorskip("tensorflow")

from keras import layers

from udfs.handlers import ModelTrainer, TensorSpec, open_adapted, open_session
from udfs.handlers.keras._modes import unfused
from udfs.packing import unpack
from udfs.shards import Tensors
from udfs.testing import assert_same_bits
from udfs.training import TrainerError, initial_seed, row_order

ROWS, WIDTH, BATCH, PARTITIONS, EPOCHS = 24, 6, 16, 2, 4
SEED = 5
VISITS = [(epoch, part) for epoch in range(EPOCHS) for part in ((0, 1) if epoch % 2 else (1, 0))]

UNFREEZING = {0: "base/high", 2: "base/low", 3: None}
FREEZING = {1: "base/low", 2: "base/high"}

# By the layer of a phase: what a plain loop switches off, of the model and of the model within it.
STEM, LOW, HIGH = ("stem",), ("in", "low", "low_norm", "low_drop"), ("high_norm", "high_drop", "high")
BELOW: dict[str | None, tuple[str, ...]] = {
    None: (),
    "stem": STEM,
    "base/low": (*STEM, "low"),
    "base/high": (*STEM, *LOW, *HIGH),
}


def network() -> Any:
    """A stem, a model of two blocks in the model, and a layer beside them, which lies below neither."""
    inner = x = keras.Input((8,), name="in")
    x = layers.Dense(8, activation="relu", name="low")(x)
    x = layers.Dropout(0.3, name="low_drop")(layers.BatchNormalization(name="low_norm")(x))
    x = layers.Dropout(0.3, name="high_drop")(layers.BatchNormalization(name="high_norm")(x))
    base = keras.Model(inner, layers.Dense(8, activation="relu", name="high")(x), name="base")
    given = keras.Input((WIDTH,), name="given")
    decayed = keras.regularizers.L2(0.01)
    x = base(layers.Dense(8, activation="relu", kernel_regularizer=decayed, name="stem")(given))
    x = layers.Add()([x, layers.Dense(8, name="side")(given)])
    return keras.Model(given, layers.Dense(3, name="head")(x))


def trainer(params: dict[str, Any]) -> ModelTrainer:
    rates = keras.optimizers.schedules.ExponentialDecay(0.02, 3, 0.8)
    return ModelTrainer(
        model=network(),
        optimizer=keras.optimizers.AdamW(rates, weight_decay=0.1, global_clipnorm=1.0, use_ema=True),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        batch_size=BATCH,
        freeze_until=params["phases"],
    )


def shard(number: int) -> Tensors:
    draw = np.random.default_rng(number)
    inputs = draw.normal(size=(ROWS, WIDTH)).astype(np.float32)
    return Tensors((inputs,), (inputs[:, :3].argmax(axis=1).astype(np.int64),), ROWS)


def named(model: Any) -> dict[str, Any]:
    base = model.get_layer("base")
    return {layer.name: layer for layer in (*model.layers, *base.layers) if layer is not base}


def plain(frozen: list[str | None]) -> Any:
    """Train by Keras alone; ``frozen`` says by epoch up to where. What is frozen drops nothing."""
    keras.utils.set_random_seed(initial_seed(SEED, "c"))
    made = trainer({"phases": {}})
    model = made.model
    made.optimizer.build(model.trainable_variables)
    found = named(model)
    rates = {name: layer.rate for name, layer in found.items() if name.endswith("drop")}
    for place, (epoch, part) in enumerate(VISITS):
        if place % PARTITIONS == 0:
            for name, layer in found.items():
                layer.trainable = name not in BELOW[frozen[epoch]]
                if name in rates:
                    layer.rate = rates[name] if layer.trainable else 0.0
            model.compile(optimizer=made.optimizer, loss=made.loss, jit_compile=False)
        data = shard(part)
        order = row_order(SEED, "c", epoch, part, data.rows)
        for start in range(0, data.rows, BATCH):
            picked = order[start : start + BATCH]
            model.train_on_batch(data.inputs[0][picked], data.labels[0][picked])
    return model


class Feed:
    """Computes a layer's rows as they are asked for, in the batches of training."""

    def __init__(self, opened: Any, feed: str, rows: Any) -> None:
        self.opened, self.feed, self.rows = opened, feed, rows

    def __getitem__(self, picked: Any) -> Any:
        (name,) = self.opened.graph.inputs
        return self.opened.trunk({name: self.rows[picked]}, [self.feed])[self.feed]


def above(opened: Any, number: int) -> Tensors:
    data = shard(number)
    return Tensors(tuple(Feed(opened, feed, data.inputs[0]) for feed in opened.feeds), data.labels, data.rows)


def unit(session: Any, epoch: int, part: int, rows: Tensors) -> None:
    order = row_order(SEED, "c", epoch, part, rows.rows)
    session.train(rows, order, ends_epoch=part == VISITS[2 * epoch + 1][1])


def opened_for(phases: dict[int, str | None], seed: int = 0) -> Any:
    return open_adapted(trainer, {"phases": phases}, seed, inputs=[TensorSpec((WIDTH,))], columns=["features"])


def hopped(phases: dict[int, str | None], *, adapted: bool) -> dict[str, Any]:
    """Three sessions, each from the bytes of the one before: within an epoch, and within a phase."""
    state = None
    session: Any = None
    for place, (epoch, part) in enumerate(VISITS):
        if place in {0, 3, 4}:
            seed = initial_seed(SEED, "c")
            opened = opened_for(phases, seed) if adapted else None
            session = opened.session if adapted else open_session(trainer, {"phases": phases}, seed)
            if state is not None:
                keras.utils.set_random_seed(99)
                session.restore(state)
        if adapted:
            assert not opened.whole
            opened.follow()
        unit(session, epoch, part, above(opened, part) if adapted else shard(part))
        assert all(layer.trainable for layer in session.model._flatten_layers())
        assert len(session.model.trainable_variables) == 14
        state = session.checkpoint()
    assert state is not None
    session.evaluate(above(opened, 0) if adapted else shard(0))
    saved: dict[str, Any] = unpack(state, lambda array, _: array.copy())
    return saved


GRADUAL = (UNFREEZING, ["base/high", "base/high", "base/low", None])
PROGRESSIVE = (FREEZING, [None, "base/low", "base/high", "base/high"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("phases", "frozen", "adapted"),
    [
        pytest.param(*GRADUAL, True, id="gradual, adapted"),
        pytest.param(*GRADUAL, False, id="gradual", marks=pytest.mark.extended),
        pytest.param(*PROGRESSIVE, True, id="progressive, adapted", marks=pytest.mark.extended),
        pytest.param(*PROGRESSIVE, False, id="progressive", marks=pytest.mark.extended),
    ],
)
def test_a_schedule_that_hops_is_a_plain_loop_bit_for_bit(
    phases: dict[int, str | None], frozen: list[str | None], adapted: bool
) -> None:
    with unfused() if adapted else nullcontext():
        truth = plain(frozen)
    saved = hopped(phases, adapted=adapted)
    assert len(saved["model"]) == len(truth.variables)
    for variable, value in zip(truth.variables, saved["model"], strict=True):
        assert_same_bits(value, variable.numpy(), variable.path)
    for variable, value in zip(truth.optimizer.variables, saved["optimizer"], strict=True):
        assert_same_bits(value, variable.numpy(), variable.path)


def test_each_phase_is_cut_where_ends_what_was_frozen_so_far() -> None:
    """What learned once is never below a cut again, however it is frozen later; nor are statistics that moved."""
    opened = opened_for(UNFREEZING)
    inputs = opened.graph.inputs
    assert [cut.start for cut in opened.cuts] == [0, 2, 3]
    deepest, middle, last = (cut.feeds for cut in opened.cuts)
    assert deepest == (*inputs, "base/high")
    assert middle == (*inputs, "base/low")
    assert last == inputs
    assert all(cut.feeds == inputs for cut in opened_for(FREEZING).cuts)
    refrozen = opened_for({0: "base/high", 1: "stem", 2: "base/high"})
    assert refrozen.cuts[2].feeds == refrozen.cuts[1].feeds == (*inputs, "stem")


def test_a_session_with_weights_from_elsewhere_is_cut_at_the_last_phase() -> None:
    phases = {0: "base/low", 2: None}
    source = opened_for(phases)
    deep, shallow = (cut.feeds for cut in source.cuts)
    assert deep != shallow
    for warm in (False, True):
        clone = opened_for(phases, 1)
        clone.follow()
        assert clone.feeds == deep
        clone.session.adopt(source.session.checkpoint(), optimizer=not warm)
        clone.follow()
        assert clone.feeds == shallow
        hopped_to = opened_for(phases, 1)
        hopped_to.session.restore(clone.session.checkpoint())
        hopped_to.follow()
        assert hopped_to.feeds == shallow


@pytest.mark.extended
def test_a_clone_goes_on_in_the_phase_of_its_source() -> None:
    source, clone = (open_session(trainer, {"phases": FREEZING}, seed) for seed in (0, 1))
    for epoch, part in VISITS[:2]:
        unit(source, epoch, part, shard(part))
    clone.adopt(source.checkpoint())
    before = {variable.path: variable.numpy() for variable in clone.model.trainable_variables}
    unit(clone, 1, 0, shard(0))
    kept = {
        variable.path
        for variable in clone.model.trainable_variables
        if np.array_equal(variable.numpy(), before[variable.path])
    }
    assert {path.rpartition("/")[0] for path in kept} == {"stem", "low"}


def opened(model: Any, phases: dict[int, str | None]) -> Any:
    return open_session(lambda _: ModelTrainer(model=model, optimizer="sgd", loss="mse", freeze_until=phases), {}, 0)


def chain(*above: Any) -> Any:
    return keras.Sequential([keras.Input((WIDTH,)), layers.Dense(4, name="first"), *above])


class Own(keras.Model):
    """Its call says nothing before it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.below = layers.Dense(3, name="below")
        self(np.zeros((1, WIDTH), np.float32))

    def call(self, x: Any) -> Any:
        return self.below(x)


@pytest.mark.parametrize(
    ("build", "layer", "said"),
    [
        (lambda: chain(layers.Dense(3)), "furst", r"freeze_until\[0\]: the model has no layer 'furst': do .* 'first'"),
        (lambda: chain(layers.Dense(3, name="top")), "top", "nothing that learns in epoch 0: .* at or below 'top'"),
        (network, "base", ""),
        (network, "base/lo", "do you mean 'base/low'"),
        (network, "low", "the model has no layer 'low'"),
        (network, "add", "Keras itself gave a layer the name 'add"),
        (Own, "below", "Own, has a call of its own"),
    ],
)
def test_what_is_no_schedule_is_refused_when_it_is_opened(build: Any, layer: str, said: str) -> None:
    model = build()
    for _ in range(2 * (layer == "add")):
        model = build()
    layer = next((each.name for each in model.layers if each.name.startswith("add")), "") if layer == "add" else layer
    if not said:
        opened(model, {0: layer})
        return
    with pytest.raises(TrainerError, match=said):
        opened(model, {0: layer})


def test_a_layer_that_the_user_froze_is_refused_and_stays_frozen() -> None:
    model = network()
    model.get_layer("stem").trainable = False
    with pytest.raises(TrainerError, match="'stem' does not learn as the model is built"):
        opened(model, {0: "stem"})
    session = opened(model, {0: "base/low", 1: None})
    before = model.get_layer("stem").kernel.numpy()
    data = shard(0)
    ones = Tensors(data.inputs, (np.ones((ROWS, 3), np.float32),), ROWS)
    for epoch in (0, 1):
        session.train(ones, row_order(SEED, "c", epoch, 0, ROWS), ends_epoch=True)
        assert not model.get_layer("stem").trainable
    np.testing.assert_array_equal(model.get_layer("stem").kernel.numpy(), before)


def test_an_optimizer_that_overwrites_frozen_weights_trains_whole() -> None:
    def averaging(params: dict[str, Any]) -> ModelTrainer:
        solver = keras.optimizers.SGD(0.1, use_ema=True, ema_overwrite_frequency=2)
        return ModelTrainer(model=network(), optimizer=solver, loss="mse", freeze_until=params["phases"])

    whole = open_adapted(averaging, {"phases": {0: "stem"}}, 0, inputs=[TensorSpec((WIDTH,))], columns=["x"])
    assert "ema_overwrite_frequency" in whole.whole
    assert not open_adapted(averaging, {"phases": {}}, 0, inputs=[TensorSpec((WIDTH,))], columns=["x"]).whole


@keras.saving.register_keras_serializable("tests")
class Block(layers.Layer):
    """A layer of layers, whose Python goes another way in training."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.dense, self.drop = layers.Dense(6, name="within"), layers.Dropout(0.4)

    def build(self, shape: Any) -> None:
        self.dense.build(shape)

    def call(self, x: Any, training: bool = False) -> Any:
        return self.dense(x) - self.drop(x, training=True) if training else x + self.dense(x)


def test_a_layer_of_layers_is_frozen_as_a_whole() -> None:
    model = keras.Sequential([keras.Input((WIDTH,)), Block(name="block"), layers.Dense(3, name="top")])
    session = opened(model, {0: "block", 1: None})
    data = shard(0)
    ones = Tensors(data.inputs, (np.ones((ROWS, 3), np.float32),), ROWS)
    drawn = []
    for epoch in (0, 1):
        session.train(ones, row_order(SEED, "c", epoch, 0, ROWS), ends_epoch=True)
        drawn.append(int(model.layers[0].drop.seed_generator.state[1]))
    assert drawn == [0, 1]
