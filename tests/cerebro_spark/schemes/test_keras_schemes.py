"""Schemes for networks of Keras: the CNN for CIFAR-10 with its real weights, and a network with dropout within."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

keras = pytest.importorskip("keras")
from real_inputs import cifar_network

from cerebro_spark import ModelTrainer
from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.schemes import feature_transfer, fine_tune, houlsby
from optimizer.errors import UnknownLayerError
from optimizer.graph import LayerGraph, materialisable, merge
from udfs.handlers import TensorSpec, framework, open_session
from udfs.shards import Tensors

IMAGE = [TensorSpec((32, 32, 3))]


def small() -> Any:
    keras.utils.set_random_seed(0)
    layers = keras.layers
    x = image = keras.Input((8, 8, 3))
    x = layers.Conv2D(4, 3, padding="same", name="low")(x)
    x = layers.BatchNormalization(name="low_norm")(x)
    x = below = layers.Dropout(0.5, name="low_dropout")(x)
    x = layers.Conv2D(4, 3, padding="same", activation="relu", name="middle")(x)
    x = layers.Add(name="added")([x, below])
    x = layers.Conv2D(6, 3, padding="same", name="high")(x)
    x = layers.BatchNormalization(name="high_norm")(x)
    x = layers.Dropout(0.5, name="high_dropout")(layers.GlobalAveragePooling2D(name="pool")(x))
    return keras.Model(image, layers.Softmax(name="softmax")(layers.Dense(5, name="classifier")(x)))


def head() -> Any:
    return keras.Sequential([keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(3)])


def learning(model: Any) -> list[str]:
    return [layer.name for layer in model.layers if layer.trainable_weights]


def graph(model: Any, inputs: list[TensorSpec] | None = None) -> LayerGraph:
    return framework("keras").trace(model, inputs or [TensorSpec((8, 8, 3))]).graph


def test_feature_transfer_of_several_layers() -> None:
    net = small()
    x = np.random.default_rng(0).random((4, 8, 8, 3), np.float32)
    low, middle = (keras.Model(net.input, net.get_layer(name).output)(x) for name in ("added", "middle"))
    top = head()
    for combine, expected in {"last": low, "sum": low + middle, "weighted_sum": (low + middle) / 2}.items():
        model = feature_transfer(net, ["added", "middle"], combine, top)
        assert np.allclose(model(x), top(expected), atol=1e-5), combine
    model = feature_transfer(net, ["middle", "high"], "concat", head())
    assert model.get_layer("projection").output.shape == (None, 8, 8, 6)
    assert model(x).shape == (4, 3)
    graphs = {
        combine: graph(feature_transfer(net, ["added", "middle"], combine, head()))
        for combine in ("last", "sum", "weighted_sum", "concat")
    }
    both = merge(graphs)
    shared = {both.graph[name].name for name in both.graph.names if len(both.users(name)) == 4}
    assert {"low", "low_norm", "middle", "added"} <= shared
    # The frozen part has no dropout, which would draw in training although it is not trainable.
    assert not any(layer.op == "Dropout" for layer in both.graph)
    assert [layer.name for layer in net.layers if not layer.trainable] == []


def test_fine_tune() -> None:
    net = small()
    x = np.random.default_rng(0).random((4, 8, 8, 3), np.float32)
    pooled = keras.Model(net.input, net.get_layer("pool").output)(x)
    top = keras.layers.Dense(3, name="mine")
    tuned = fine_tune(net, top=1, head=top)
    assert np.allclose(tuned(x), top(pooled), atol=1e-5)
    assert learning(tuned) == ["high", "high_norm", "mine"]
    kinds = {layer.name: type(layer).__name__ for layer in tuned.layers}
    assert (kinds["low_dropout"], kinds["high_dropout"]) == ("Identity", "Dropout")
    assert set(materialisable(graph(tuned))) >= {"low", "low_norm", "middle", "added"}
    assert learning(fine_tune(net, top=2, head=keras.layers.Dense(3), blocks=["low", "middle"]))[:1] == ["low"]
    plain = fine_tune(net, top=1)
    assert np.allclose(plain(x), net(x), atol=1e-6)
    assert learning(plain) == ["high", "high_norm", "classifier"]


def test_training_changes_what_learns_alone() -> None:
    net = small()
    before = net.get_weights()
    draw = np.random.default_rng(0)
    data = Tensors((draw.random((8, 8, 8, 3), np.float32),), (draw.integers(0, 3, 8),), 8)

    def trainer(params: dict[str, Any]) -> ModelTrainer:
        model = fine_tune(net, top=1, head=keras.layers.Dense(3))
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return ModelTrainer(model=model, optimizer=keras.optimizers.SGD(params["lr"]), loss=loss, batch_size=4)

    session = open_session(trainer, {"lr": 0.5}, 0)
    model: Any = session.model
    at_first = {weight.path: weight.numpy() for weight in model.weights}
    session.train(data, np.arange(8), ends_epoch=True)
    moved = {weight.path for weight in model.weights if not np.array_equal(weight.numpy(), at_first[weight.path])}
    statistics = {path for path in at_first if "high_norm/moving" in path}
    assert moved == {weight.path for weight in model.trainable_weights} | statistics
    assert all(np.array_equal(*pair) for pair in zip(before, net.get_weights(), strict=True))


def test_the_cifar_network() -> None:
    net = cifar_network()
    made = {f"top {top}": fine_tune(net, top=top, head=keras.layers.Dense(10)) for top in (1, 3)}
    graphs = {name: graph(model, IMAGE) for name, model in made.items()}
    both = merge(graphs)
    shared = [name for name in both.graph.names if both.users(name) == tuple(made)]
    assert len(shared) == len(materialisable(graphs["top 3"]))
    assert sum(both.graph[name].op == "Conv2D" for name in shared) >= 3


def test_bad_input() -> None:
    net = small()
    with pytest.raises(UnknownLayerError, match=r"no layer 'midle' in .*did you mean 'middle'"):
        feature_transfer(net, "midle", head=head())
    with pytest.raises(InvalidArgumentError, match=r"head must be a keras.Layer .*got None"):
        feature_transfer(net, "middle")
    with pytest.raises(InvalidArgumentError, match=r"several shapes .*combine=\"concat\""):
        feature_transfer(net, ["middle", "high"], "sum", head())
    with pytest.raises(
        InvalidArgumentError, match=r"top must be at most 3, the blocks of .* \(low, middle, high\), got 4"
    ):
        fine_tune(net, top=4, head=head())
    with pytest.raises(InvalidArgumentError, match=r"houlsby adapts a torch.nn.Module"):
        houlsby(net, top=1)

    class Own(keras.Model):
        def call(self, x: Any) -> Any:
            return x

    with pytest.raises(InvalidArgumentError, match="layers within its call"):
        fine_tune(Own(), top=1)
