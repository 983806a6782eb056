"""Trainers of Keras that are opened where their frozen layers end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

keras = pytest.importorskip("keras")
pytest.importorskip("tensorflow")

from keras import layers

from udfs.handlers import TensorSpec
from udfs.handlers.keras._modes import unfused
from udfs.shards import Tensors
from udfs.testing import AdaptationContract, AdaptationSample
from udfs.training import ModelTrainer

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
VECTOR, IMAGE = (TensorSpec((6,)),), (TensorSpec((6, 6, 3)),)


class TestContract(AdaptationContract):
    samples = (
        AdaptationSample("chain", trainer_fn(chain), VECTOR, VECTORS, weights),
        AdaptationSample("residual", trainer_fn(residual), IMAGE, IMAGES, weights),
    )

    @pytest.fixture(autouse=True)
    def _unfused(self) -> Iterator[None]:
        """Where TensorFlow fuses the whole model's layers, they round in other places than a branch and its trunk."""
        with unfused():
            yield
