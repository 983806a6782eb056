"""KerasTuner's models in a search: their space, and the trainer of each configuration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

keras = pytest.importorskip("keras")
pytest.importorskip("tensorflow")

from optimizer.space import integer
from udfs.handlers import HyperModelTrainer, open_session
from udfs.shards import Tensors
from udfs.training import TrainerError, decide_session_task


class Dense:
    """A hypermodel, by its interface."""

    def build(self, hp: Any) -> Any:
        model = keras.Sequential([keras.Input((4,))])
        for layer in range(hp.Int("layers", 1, 2)):
            model.add(keras.layers.Dense(hp.Int(f"units_{layer}", 2, 6, step=2), "relu"))
        model.add(keras.layers.Dense(2, "softmax"))
        model.compile(keras.optimizers.Adam(hp.Choice("lr", [0.1, 0.01])), self.loss, metrics=["accuracy"])
        return model

    loss = "sparse_categorical_crossentropy"


def test_a_hypermodel_trains_and_its_layers_inherit() -> None:
    adapted = HyperModelTrainer(Dense(), batch_size=16)
    assert [dimension.path for dimension in adapted.search_space.dimensions] == ["layers", "units_0", "lr", "units_1"]
    assert dict(adapted.search_space.dimensions[3].condition) == {"layers": (2,)}
    assert adapted.search_space.dimensions[1].domain == integer(2, 6, 2)
    inputs = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    data = Tensors((inputs,), ((inputs.sum(axis=1) > 0).astype(np.int64),), 64)
    parent = open_session(adapted, {"layers": 1, "units_0": 4, "lr": 0.1}, 3)
    decide_session_task(parent, data, ["label"])
    for _ in range(10):
        parent.train(data, np.arange(64), ends_epoch=True)
    accuracy = parent.sums.results(parent.evaluate(data))["accuracy"]
    assert accuracy > 0.8
    # Models of the same process number their layers on: only names within the model are equal.
    child = open_session(adapted, {"layers": 1, "units_0": 4, "lr": 0.01}, 5)
    child.inherit(parent.checkpoint())
    assert child.inherited == "4 of 4 tensors"
    np.testing.assert_array_equal(child.predict((inputs,))[0], parent.predict((inputs,))[0])
    deeper = open_session(adapted, {"layers": 2, "units_0": 6, "units_1": 2, "lr": 0.1}, 5)
    deeper.inherit(parent.checkpoint())
    assert deeper.inherited == "4 of 6 tensors, 3 of them in part"
    # The second layer takes after the head of the parent, which is the second Dense there.
    np.testing.assert_array_equal(deeper.model.layers[0].kernel[:, :4], parent.model.layers[0].kernel)


def test_other_hypermodels_are_refused() -> None:
    with pytest.raises(TrainerError, match=r"hypermodel must be an object with build\(hp\) or a function of hp, got 3"):
        HyperModelTrainer(3)
    adapted = HyperModelTrainer(lambda hp: keras.Sequential([keras.Input((2,)), keras.layers.Dense(hp.Int("a", 1, 2))]))
    with pytest.raises(TrainerError, match="must return a compiled model with a loss"):
        adapted({"a": 1})
