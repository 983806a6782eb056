"""Gradients of the rows of a Keras network, and its features: equal to those of a plain tape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

keras = pytest.importorskip("keras")
tf = pytest.importorskip("tensorflow")

from cerebro_spark import ModelTrainer
from cerebro_spark.errors import InvalidArgumentError
from udfs.handlers import open_session
from udfs.handlers.keras import gradients
from udfs.inference import PortableNetwork

INPUTS = np.random.default_rng(0).random((6, 4)).astype(np.float32)
LABELS = np.array([0, 1, 2, 0, 1, 2])


def session_of(*layers: Any, loss: Any = "sparse_categorical_crossentropy") -> Any:
    net = keras.Sequential([keras.Input((4,)), *layers])
    return open_session(lambda _: ModelTrainer(model=net, optimizer=keras.optimizers.SGD(0.3), loss=loss), {}, 0)


@pytest.mark.parametrize("ending", [[("softmax",)], [(None,), "softmax"]], ids=["fused", "layer"])
def test_gradients_are_those_of_a_tape_over_each_row(ending: list[Any]) -> None:
    (activation,), *more = ending
    layers = [keras.layers.Dense(5, "tanh"), keras.layers.Dropout(0.5), keras.layers.Dense(3, activation, name="last")]
    session = session_of(*layers, *(keras.layers.Activation(each) for each in more))
    name = gradients.last_layer(session, [INPUTS])
    assert gradients.learning_rate(session) == pytest.approx(0.3)
    found = gradients.row_gradients(session, [INPUTS], LABELS, [name])
    assert np.array_equal(gradients.row_gradients(session, [INPUTS], LABELS, ["last"]).outputs, found.outputs)
    rows = []
    for place in range(6):
        with tf.GradientTape() as tape:
            outputs = session.model(INPUTS[place : place + 1], training=False)
            loss = keras.losses.SparseCategoricalCrossentropy()(LABELS[place : place + 1], outputs)
        parts = tape.gradient(loss, [weight.value for weight in session.model.get_layer("last").weights])
        rows.append(np.concatenate([np.ravel(part) for part in parts]))
    expected = np.stack(rows) @ np.stack(rows).T
    assert np.allclose(found.dot(found), expected, atol=1e-5)
    assert np.allclose(found.squared_norms(), np.diag(expected), atol=1e-5)
    # The layer is as before.
    (first, *_) = session.predict((INPUTS,))
    assert np.allclose(first.sum(axis=1), 1, atol=1e-5)


def test_other_layers_are_refused() -> None:
    session = session_of(keras.layers.Dense(3, name="last"))
    with pytest.raises(InvalidArgumentError, match=r"layers must be \['last'\], the last layer, .* got \['first'\]"):
        gradients.row_gradients(session, [INPUTS], LABELS, ["first"])
    normed = session_of(keras.layers.Dense(3), keras.layers.BatchNormalization(name="norm"))
    with pytest.raises(InvalidArgumentError, match=r"must have a network whose last layer .* got BatchNormalization"):
        gradients.last_layer(normed, [INPUTS])


def test_features_are_what_the_last_layer_reads() -> None:
    layers = [keras.layers.Reshape((2, 2, 1)), keras.layers.Conv2D(5, 1, activation="relu"), keras.layers.Conv2D(2, 1)]
    net = keras.Sequential([keras.Input((4,)), *layers, keras.layers.GlobalAveragePooling2D()])
    (features,) = PortableNetwork.of(net, [INPUTS]).open_features()([INPUTS])
    expected = np.asarray(layers[1](layers[0](INPUTS))).mean(axis=(1, 2))
    assert features.shape == (6, 5) and np.allclose(features, expected, atol=1e-6)
