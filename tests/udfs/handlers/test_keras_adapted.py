"""Trainers of Keras that are opened where their frozen layers end."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

keras = pytest.importorskip("keras")
pytest.importorskip("tensorflow")

from keras import layers

from optimizer.graph import materialisable
from udfs.handlers import ModelTrainer, TensorSpec, open_adapted, open_session
from udfs.handlers.keras._measure import BATCHES, measure
from udfs.handlers.keras._modes import unfused
from udfs.shards import Tensors
from udfs.testing import AdaptationContract, AdaptationSample
from udfs.training import TrainerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BATCH, ROWS, CLASSES = 8, 24, 3


def frozen(layer: Any) -> Any:
    layer.trainable = False
    return layer


def chain() -> Any:
    """A frozen block with batch norm and dropout; both once more above it."""
    below = [layers.Dense(7), layers.BatchNormalization(), layers.Dropout(0.5), layers.ReLU()]
    above = [layers.Dense(5), layers.BatchNormalization(), layers.Dropout(0.4), layers.Dense(CLASSES)]
    return keras.Sequential([keras.Input((6,)), *map(frozen, below), *above])


def residual() -> Any:
    """Residual blocks in a model of their own, the last of which learns."""
    image = keras.Input((6, 6, 3))
    x = layers.Conv2D(4, 3, padding="same")(image)
    for block in range(3):
        y = layers.Conv2D(4, 3, padding="same", name=f"{block}_conv1")(x)
        y = layers.ReLU()(layers.BatchNormalization(name=f"{block}_norm1")(y))
        y = layers.BatchNormalization(name=f"{block}_norm2")(
            layers.Conv2D(4, 3, padding="same", name=f"{block}_conv2")(y)
        )
        x = layers.ReLU(name=f"{block}_out")(layers.Add()([x, y]))
    base = keras.Model(image, x, name="base")
    for layer in base.layers:
        layer.trainable = layer.name.startswith("2_")
    given = keras.Input((6, 6, 3))
    x = layers.GlobalAveragePooling2D()(base(given))
    return keras.Model(given, layers.Dense(CLASSES)(layers.Dropout(0.3)(x)))


def two_inputs() -> Any:
    """One input below the cut and one above; two outputs, one of which does not learn."""
    image, vector = keras.Input((6, 6, 3), name="image"), keras.Input((6,), name="vector")
    x = layers.Flatten()(frozen(layers.Conv2D(4, 3, activation="relu", name="conv"))(image))
    still = frozen(layers.Dense(CLASSES, name="still"))(x)
    kernel = keras.regularizers.L2(0.01)
    x = layers.Dense(5, kernel_regularizer=kernel, activity_regularizer="l2")(layers.Concatenate()([x, vector]))
    return keras.Model([image, vector], [layers.Dense(CLASSES, name="scores")(x), still])


def recurrent() -> Any:
    """A frozen recurrent layer below one that learns, with dropout in it."""
    below = frozen(layers.LSTM(5, return_sequences=True, dropout=0.5))
    above = layers.Bidirectional(layers.GRU(5, dropout=0.3))
    return keras.Sequential([keras.Input((5, 6)), below, above, layers.Dense(CLASSES)])


def tied() -> Any:
    """A layer below frozen ones that is called above them again: it learns in both places."""
    x = given = keras.Input((6,))
    again = layers.Dense(5)
    x = again(frozen(layers.Dense(6))(x))
    x = again(frozen(layers.Dense(6))(keras.ops.tanh(x)))
    return keras.Model(given, layers.Dense(CLASSES)(x))


def adapters() -> Any:
    """What learns lies below frozen layers: gradients pass through these."""
    given = keras.Input((6,))
    x = frozen(layers.Dense(5))(given)
    x = layers.Add()([x, layers.Dense(5)(x)])
    x = frozen(layers.Dropout(0.5))(frozen(layers.Dense(5))(frozen(layers.BatchNormalization())(x)))
    return keras.Model(given, layers.Dense(CLASSES)(x))


@keras.saving.register_keras_serializable("tests")
class Block(layers.Layer):
    """A layer of layers, which takes another way in training, and has a norm whose statistics move."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.dense, self.drop = layers.Dense(6), layers.Dropout(0.4)
        self.norm = layers.BatchNormalization(center=False, scale=False)

    def build(self, shape: Any) -> None:
        self.dense.build(shape)
        self.norm.build(shape)

    def call(self, x: Any, training: bool = False) -> Any:
        if not training:
            return x + self.norm(self.dense(x), training=False)
        return x - self.drop(self.norm(self.dense(x), training=True), training=True)


def composite() -> Any:
    """Two layers of layers, one of them frozen."""
    return keras.Sequential([keras.Input((6,)), Block(name="below", trainable=False), Block(), layers.Dense(CLASSES)])


def statistics() -> Any:
    """A norm that has no weights: nothing of it learns, and its statistics move."""
    norm = layers.BatchNormalization(center=False, scale=False, name="norm")
    return keras.Sequential([keras.Input((6,)), frozen(layers.Dense(5, name="below")), norm, layers.Dense(CLASSES)])


def inner() -> Any:
    """A block that is frozen but for one layer in it, and for a dropout, which has nothing to learn."""
    block = keras.Sequential([keras.Input((6,)), layers.Dense(5), layers.Dropout(0.5), layers.BatchNormalization()])
    block.trainable = False
    still = keras.Sequential([keras.Input((5,)), layers.Dense(5), layers.Dropout(0.5)])
    still.trainable = False
    block.layers[1].trainable = block.layers[2].trainable = still.layers[1].trainable = True
    return keras.Sequential([keras.Input((6,)), block, still, layers.Dense(CLASSES)])


def on_top(*below: Any) -> Any:
    return keras.Sequential([keras.Input((6,)), *map(frozen, below), layers.Dense(CLASSES)])


def masked() -> Any:
    """An embedding that is frozen and tells the layer above it which words are padding."""
    below = frozen(layers.Embedding(20, 4, mask_zero=True))
    return keras.Sequential([keras.Input((7,), dtype="int32"), below, layers.LSTM(4), layers.Dense(CLASSES)])


class Own(keras.Model):
    """A class of the user's own."""

    def __init__(self) -> None:
        super().__init__()
        self.below, self.above = frozen(layers.Dense(5)), layers.Dense(CLASSES)
        self(np.zeros((1, 6), np.float32))

    def call(self, x: Any) -> Any:
        return self.above(self.below(x))


class OwnStep(keras.Sequential):
    """A step of the user's own, which trains on other inputs than it is given."""

    def train_step(self, data: Any) -> Any:
        return super().train_step((data[0] * 2, *data[1:]))


def trainer_fn(build: Callable[[], Any], optimizer: Any = None) -> Callable[[dict[str, Any]], ModelTrainer]:
    def make(_params: dict[str, Any]) -> ModelTrainer:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return ModelTrainer(
            model=build(), optimizer=(optimizer or keras.optimizers.Adam)(0.01), loss=loss, batch_size=BATCH
        )

    return make


def weights(model: Any) -> dict[str, np.ndarray]:
    return {f"{place} {variable.name}": variable.numpy() for place, variable in enumerate(model.weights)}


def rows(*inputs: np.ndarray) -> Tensors:
    return Tensors(inputs, (np.arange(len(inputs[0])) % CLASSES,), len(inputs[0]))


DRAW = np.random.default_rng(0)
VECTORS = rows(DRAW.normal(size=(ROWS, 6)).astype(np.float32))
IMAGES = rows(DRAW.normal(size=(ROWS, 6, 6, 3)).astype(np.float32))
PIXELS = rows(DRAW.integers(0, 256, (ROWS, 6, 6, 3)).astype(np.uint8))
SEQUENCES = rows(DRAW.normal(size=(ROWS, 5, 6)).astype(np.float32))
WORDS = rows(DRAW.integers(0, 20, (ROWS, 7)).astype(np.int32))
BOTH = Tensors((PIXELS.inputs[0], VECTORS.inputs[0]), VECTORS.labels * 2, ROWS)
VECTOR, IMAGE, PIXEL = (TensorSpec((6,)),), (TensorSpec((6, 6, 3)),), (TensorSpec((6, 6, 3), "uint8"),)
SEQUENCE, WORD = (TensorSpec((5, 6)),), (TensorSpec((7,), "int32"),)


def two_losses(_params: dict[str, Any]) -> ModelTrainer:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    solver = keras.optimizers.SGD(0.1, momentum=0.9)
    return ModelTrainer(model=two_inputs(), optimizer=solver, loss=[loss, loss], batch_size=BATCH)


class _Contract(AdaptationContract):
    @pytest.fixture(autouse=True)
    def _unfused(self) -> Iterator[None]:
        """Where TensorFlow fuses the whole model's layers, they round in other places than a branch and its trunk."""
        with unfused():
            yield


class TestContract(_Contract):
    samples = (AdaptationSample("residual", trainer_fn(residual), IMAGE, IMAGES, weights),)


@pytest.mark.slow
class TestMore(_Contract):
    samples = (
        AdaptationSample("chain", trainer_fn(chain), VECTOR, VECTORS, weights),
        AdaptationSample("pixels", trainer_fn(residual, keras.optimizers.SGD), PIXEL, PIXELS, weights),
        AdaptationSample("two inputs", two_losses, (*PIXEL, *VECTOR), BOTH, weights),
        AdaptationSample("recurrent", trainer_fn(recurrent), SEQUENCE, SEQUENCES, weights),
        AdaptationSample("tied", trainer_fn(tied), VECTOR, VECTORS, weights),
        AdaptationSample("adapters", trainer_fn(adapters), VECTOR, VECTORS, weights),
        AdaptationSample("composite", trainer_fn(composite), VECTOR, VECTORS, weights),
        AdaptationSample("statistics", trainer_fn(statistics), VECTOR, VECTORS, weights),
        AdaptationSample("inner", trainer_fn(inner), VECTOR, VECTORS, weights),
        AdaptationSample("nothing frozen", trainer_fn(on_top), VECTOR, VECTORS, weights),
        AdaptationSample("a class of its own", trainer_fn(Own), VECTOR, VECTORS, weights, "own has a call of its own"),
    )


@pytest.mark.parametrize(
    ("build", "inputs", "why"),
    [
        (Own, VECTOR, "Own has a call of its own"),
        (lambda: OwnStep([keras.Input((6,)), layers.Dense(CLASSES)]), VECTOR, "train_step of its own"),
        (masked, WORD, "'embedding' is frozen and hands on a mask"),
        (lambda: on_top(layers.Dense(5, activity_regularizer="l2", name="low")), VECTOR, "'low' is frozen and adds to"),
        (lambda: on_top(layers.UnitNormalization(axis=0)), VECTOR, "mixes the records"),
        (lambda: on_top(layers.Dense(5, dtype="mixed_float16")), SEQUENCE, "of another shape"),
    ],
    ids=["class", "step", "mask", "loss", "records", "inputs"],
)
def test_what_cannot_be_opened_trains_whole(build: Callable[[], Any], inputs: Any, why: str) -> None:
    adapted = open_adapted(trainer_fn(build), {}, 1, inputs=inputs, columns=["x"])
    assert why in adapted.whole
    assert adapted.feeds == adapted.graph.inputs
    assert adapted.session.network is adapted.model


def test_feeds_are_the_last_layers_that_stay_the_same() -> None:
    adapted = open_adapted(trainer_fn(residual), {}, 1, inputs=IMAGE, columns=["image"])
    assert (adapted.feeds, adapted.slots) == (("base/1_out",), 2)
    graph = adapted.graph
    assert {layer.name for layer in graph if not layer.frozen} == {
        *(f"base/2_{part}" for part in ("conv1", "norm1", "conv2", "norm2")),
        "dense",
    }
    drops = [layer for layer in graph if layer.random]
    assert [layer.name for layer in drops] == ["dropout"]
    assert drops[0].inner_bytes > 2 * drops[0].activation_bytes, "what it drew, and its mask"


def test_a_norm_whose_statistics_move_is_not_frozen() -> None:
    adapted = open_adapted(trainer_fn(statistics), {}, 1, inputs=VECTOR, columns=["x"])
    assert adapted.feeds == ("below",)
    assert not adapted.graph["norm"].frozen


def test_one_trunk_has_one_expression_under_different_branches() -> None:
    def build(top: int) -> Any:
        below = [layers.Dense(6, kernel_initializer=keras.initializers.GlorotUniform(seed)) for seed in range(4)]
        for layer in below[: 4 - top]:
            layer.trainable = False
        return keras.Sequential([keras.Input((6,)), *below, layers.Dense(CLASSES)])

    graphs = [
        open_adapted(trainer_fn(partial(build, top)), {}, seed, inputs=VECTOR, columns=["x"]).graph
        for seed, top in enumerate((1, 1, 2))
    ]
    shared = [{graph.expression(name) for name in materialisable(graph)} for graph in graphs]
    assert shared[2] < shared[0] == shared[1]
    assert len(shared[2]) == 3


def test_candidates_of_one_architecture_are_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = []
    monkeypatch.setattr("udfs.handlers.keras._adapted_trainer._known", {})
    monkeypatch.setattr(
        "udfs.handlers.keras._adapted_trainer.measure", lambda *given: traced.append(given[2]) or measure(*given)
    )
    for build, times in ((chain, 1), (chain, 1), (statistics, 2), (chain, 2)):
        graph = open_adapted(trainer_fn(build), {}, 1, inputs=VECTOR, columns=["x"]).graph
        assert traced == [*BATCHES] * times
    assert [layer.name for layer in graph if not layer.frozen] == ["dense_1", "batch_normalization_1", "dense_2"]


@pytest.mark.parametrize("whole", [False, True])
def test_frozen_batch_norm_and_dropout_stay_in_inference_mode(whole: bool) -> None:
    """Keras itself lets a frozen dropout draw: its seed generator would have moved."""
    session = open_session(trainer_fn(chain), {}, 1)
    model = session.model
    if whole:
        for layer in model.layers[5:]:
            layer.trainable = False
    session.train(VECTORS, np.arange(ROWS), ends_epoch=True)
    draws = [int(model.layers[place].seed_generator.state[1]) for place in (2, 6)]
    moved = [bool(np.any(model.layers[place].moving_mean)) for place in (1, 5)]
    assert draws == [0, 0 if whole else ROWS // BATCH]
    assert moved == [False, not whole]


def test_a_warm_start_takes_what_learns_within_a_frozen_block() -> None:
    source, warm = (open_session(trainer_fn(inner), {}, seed) for seed in (1, 2))
    source.train(VECTORS, np.arange(ROWS), ends_epoch=True)
    warm.adopt(source.checkpoint(), optimizer=False)
    pairs = zip(warm.model.weights, source.model.weights, strict=True)
    others = [place for place, pair in enumerate(pairs) if not np.array_equal(*pair)]
    assert others == [0, 6], "the kernels of frozen layers"


def test_opening_draws_nothing_and_leaves_the_model() -> None:
    adapted = open_adapted(trainer_fn(residual), {}, 5, inputs=IMAGE, columns=["x"])
    session = open_session(trainer_fn(residual), {}, 5)
    np.testing.assert_equal(adapted.session.random, session.random)
    for variable, other in zip(adapted.model.variables, session.model.variables, strict=True):
        np.testing.assert_array_equal(variable, other)
    assert not any("call" in vars(layer) for layer in adapted.model._flatten_layers())
    assert adapted.model.losses == []


def test_what_cannot_be_adapted_is_refused() -> None:
    with pytest.raises(TrainerError, match=r"must have a trainable layer.*'sequential"):
        open_adapted(trainer_fn(lambda: frozen(on_top())), {}, 1, inputs=VECTOR, columns=["x"])


def test_an_error_within_the_opening_trains_the_model_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise AttributeError("a layer without a shape")

    monkeypatch.setattr("udfs.handlers.keras._adapted_trainer.layer_graph", fail)
    adapted = open_adapted(trainer_fn(chain), {}, 1, inputs=VECTOR, columns=["x"])
    assert "AttributeError: a layer without a shape" in adapted.whole


def test_a_layer_of_places_in_the_batch_is_not_stored() -> None:
    """TensorFlow has the place of a record in its batch where torch has ``arange``."""

    class Place(layers.Layer):
        def call(self, x: Any) -> Any:
            return keras.ops.arange(keras.ops.shape(x)[0], dtype="int32")

        def compute_output_spec(self, x: Any) -> Any:
            return keras.KerasTensor((x.shape[0],), "int32")

    def build() -> Any:
        x = keras.Input((6,))
        below = frozen(layers.Dense(5))(x)
        place = layers.Embedding(64, 5)(frozen(Place())(below))
        return keras.Model(x, layers.Dense(CLASSES)(layers.Add()([layers.Dense(5)(below), place])))

    adapted = open_adapted(trainer_fn(build), {}, 1, inputs=VECTOR, columns=["x"])
    assert "mixes the records" in adapted.whole
