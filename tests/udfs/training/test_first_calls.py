"""Models that make their variables at their first call are built from the shapes of the rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from udfs.handlers import ModelTrainer, TensorSpec, open_session, try_step
from udfs.inference import NotPortableError, PortableNetwork
from udfs.shards import Tensors


def data(dtype: str = "float32") -> Any:
    return SimpleNamespace(shards=[SimpleNamespace(split="train", rows=8)], input_specs=(TensorSpec((5,), dtype),))


def rows() -> Tensors:
    return Tensors((np.ones((8, 5), np.float32),), (np.arange(8) % 2,), 8)


def lazy() -> Any:
    nn = torch.nn
    return nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d(), nn.Dropout(), nn.Linear(4, 2))


def test_lazy_parameters_of_torch() -> None:
    def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
        net = lazy()
        return ModelTrainer(
            model=net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1), loss=torch.nn.CrossEntropyLoss()
        )

    session, twin = (open_session(trainer_fn, {}, 3, data=data()) for _ in range(2))
    assert session.checkpoint() == twin.checkpoint()
    assert session.model.training
    assert session.weight_bytes > 0
    try_step(session, rows())


@pytest.mark.filterwarnings("ignore::UserWarning")  # Keras's, of a build() that builds nothing
def test_layers_of_keras() -> None:
    keras = pytest.importorskip("keras")

    class Mine(keras.Model):
        def __init__(self, *, calls_build: bool = False) -> None:
            super().__init__()
            self.a, self.b = keras.layers.Dense(4, "tanh"), keras.layers.Dense(2)
            if calls_build:
                self.build((None, 5))

        def call(self, x: Any, training: Any = None) -> Any:
            return self.b(self.a(x))

    def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return ModelTrainer(model=Mine(**params), optimizer=keras.optimizers.Adam(0.1), loss=loss)

    for params in ({}, {"calls_build": True}):
        session, twin = (open_session(trainer_fn, params, 3, data=data()) for _ in range(2))
        assert session.checkpoint() == twin.checkpoint()
        before = [variable.numpy() for variable in session.model.trainable_variables]
        try_step(session, rows())
        assert not np.array_equal(before[0], session.model.trainable_variables[0].numpy())


def test_registered_classes_of_keras_are_written_as_layers_or_refused() -> None:
    keras = pytest.importorskip("keras")

    @keras.saving.register_keras_serializable("travels")
    class Twice(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(2)

        def call(self, x: Any) -> Any:
            return keras.ops.tanh(self.dense(x)) * 2

    @keras.saving.register_keras_serializable("travels")
    class Scale(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.w = self.add_weight(shape=(shape[-1],), initializer="ones")

        def call(self, x: Any) -> Any:
            return x * self.w

    @keras.saving.register_keras_serializable("travels")
    def squared(x: Any) -> Any:
        return x * x

    inputs = [np.ones((2, 5), np.float32)]

    def network(*layers: Any) -> Any:
        return keras.Sequential([keras.Input((5,)), *layers, keras.layers.Dense(2)])

    model = Twice()
    model(inputs[0])
    written = PortableNetwork.of(model, inputs)
    registered = keras.saving.get_custom_objects()
    known = dict(registered)
    registered.clear()  # as in another process
    try:
        np.testing.assert_allclose(written.open()(inputs)[0], model.predict_on_batch(inputs[0]), rtol=1e-5)
    finally:
        registered.update(known)
    for layer, name in ((Scale(), "Scale"), (keras.layers.Dense(3, activation=squared), "squared")):
        with pytest.raises(NotPortableError, match=name):
            PortableNetwork.of(network(layer), inputs)
