"""Keras models as they are: copied, numbered, and without their author's classes in what travels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from udfs.handlers import UntraceableModelError, framework

pytest.importorskip("tensorflow")
OWN = framework("keras")  # imports Keras, quietly
import keras

from udfs.images import Preprocessing
from udfs.inference import NetworkFile
from vista_spark import roster
from vista_spark.errors import InvalidArgumentError
from vista_spark.roster import ModelCard

PIXELS = Preprocessing(crop=16, layout="NHWC")


class Block(keras.layers.Layer):
    """A layer of layers without a get_config, as people write it."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(units)
        self.norm = keras.layers.BatchNormalization()

    def call(self, rows: Any) -> Any:
        return keras.ops.relu(self.norm(self.dense(rows)))


class Own(keras.Model):
    def __init__(self, units: int) -> None:
        super().__init__()
        self.conv = keras.layers.Conv2D(4, 3)
        self.pool = keras.layers.GlobalAveragePooling2D()
        self.low, self.high = Block(units), Block(units)
        self.drop = keras.layers.Dropout(0.5)
        self.head = keras.layers.Dense(2)

    def call(self, images: Any, training: bool = False) -> Any:
        return self.head(self.drop(self.high(self.low(self.pool(self.conv(images)))), training=training))


def pictures() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(3, 16, 16, 3)).astype("float32")


@pytest.fixture
def own() -> keras.Model:
    model = Own(5)
    model(pictures(), training=True)  # the moving statistics are no longer those of the beginning
    return model


def test_a_model_of_own_classes_travels_without_them(own: keras.Model) -> None:
    before = [weight.copy() for weight in own.get_weights()]
    card = roster.of(own, preprocessing=PIXELS)
    assert (card.framework, card.parameters) == ("keras", own.count_params())
    opened = roster.load(card)
    assert not {type(layer) for layer in opened._flatten_layers()} & {Own, Block}
    np.testing.assert_allclose(opened(pictures()), own(pictures(), training=False), atol=1e-6)
    assert all((now == then).all() for now, then in zip(own.get_weights(), before, strict=True))
    names = [layer.name for layer in card.layers]
    assert len(names) == 5
    ours, theirs = OWN.trace(opened, PIXELS.inputs), OWN.trace(own, PIXELS.inputs)
    for path in names:
        (one,) = ours.run({ours.graph.inputs[0]: pictures()}, [ours.layer(path)]).values()
        (other,) = theirs.run({theirs.graph.inputs[0]: pictures()}, [theirs.layer(path)]).values()
        np.testing.assert_allclose(one, other, atol=1e-6, err_msg=path)


def test_a_model_that_is_trained_further_is_another_one(own: keras.Model) -> None:
    card = roster.of(own, preprocessing=PIXELS)
    assert roster.of(own, preprocessing=PIXELS) == card
    own.head.kernel.assign(own.head.kernel + 1)
    assert roster.of(own, preprocessing=PIXELS).builder != card.builder


def test_a_sequential_says_size_and_scaling_itself() -> None:
    layers = [
        keras.Input((24, 24, 3)),
        keras.layers.Rescaling(1 / 255),
        keras.layers.Conv2D(4, 3, name="conv"),
        keras.layers.ReLU(name="relu"),
        keras.layers.GlobalAveragePooling2D(name="pool"),
        keras.layers.Dense(2, name="head"),
    ]
    card = roster.of(keras.Sequential(layers, name="mine"))
    assert card.name == "mine"
    assert card.preprocessing == Preprocessing(crop=24, mean=(0, 0, 0), std=(1, 1, 1), scale=1, layout="NHWC")
    assert not card.assumed
    assert [layer.name for layer in card.layers][-3:] == ["relu", "pool", "head"]


@pytest.mark.parametrize("handed_out", [False, True], ids=["fresh", "handed out"])
def test_a_builder_of_keras_needs_no_framework(handed_out: bool) -> None:
    def build() -> keras.Model:
        return keras.Sequential([keras.Input((16, 16, 3)), keras.layers.Conv2D(4, 3, name="conv")])

    model = build()
    card = roster.of(ModelCard("mine", (lambda: model) if handed_out else build, PIXELS, ("conv",)))
    assert (card.framework, card.parameters) == ("keras", 112)
    assert isinstance(card.builder, NetworkFile) is handed_out


def test_what_no_stage_reads_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"images of 16 x 24: images are cropped to squares"):
        roster.of(keras.Sequential([keras.Input((16, 24, 3)), keras.layers.Conv2D(4, 3)]))
    with pytest.raises(InvalidArgumentError, match="not one colour image"):
        roster.of(keras.Sequential([keras.Input((7,)), keras.layers.Dense(2)]))
    with pytest.raises(UntraceableModelError, match="is not built"):
        roster.of(keras.Sequential([keras.layers.Dense(2)]), preprocessing=PIXELS)
    code = keras.Sequential([keras.Input((16, 16, 3)), keras.layers.Lambda(lambda images: images * 2)])
    with pytest.raises(UntraceableModelError, match=r"without its code.*Lambda"):
        roster.of(code)
