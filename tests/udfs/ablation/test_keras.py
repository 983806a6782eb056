"""Removal of parts from networks of Keras."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

keras = pytest.importorskip("keras")

from optimizer.ablation import REMOVED, Removal
from optimizer.errors import CerebroError
from udfs.ablation import AblatedTrainer
from udfs.handlers import ModelTrainer, framework, open_session
from udfs.shards import PreparedData, TensorColumn, TensorGroup, Tensors
from udfs.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

FEATURES = TensorGroup("features", (TensorColumn("age", "float32"), TensorColumn("codes", "float32", (2,))))
IDS = TensorGroup("ids", (TensorColumn("user", "int64"), TensorColumn("film", "int64")))
IMAGE = TensorGroup("image", (TensorColumn("image", "uint8", (8, 8, 3)),))


def two_inputs() -> Any:
    features, ids = keras.Input((3,), name="features"), keras.Input((2,), dtype="int64", name="ids")
    embedded = keras.layers.Embedding(5, 3, name="film")(ids)
    block = keras.Sequential([keras.Input((6,)), keras.layers.Dense(6, name="inner")], name="block")
    joined = keras.layers.Concatenate(name="joined")([features, block(keras.layers.Flatten(name="flat")(embedded))])
    narrow = keras.layers.Dense(4, activation="relu", name="narrow")(joined)
    return keras.Model([features, ids], keras.layers.Dense(2, name="head")(narrow))


def images() -> Any:
    return keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            keras.layers.Conv2D(3, 3, padding="same", name="same"),
            keras.layers.Conv2D(5, 3, strides=2, padding="same", name="strided"),
            keras.layers.MaxPooling2D(2, name="pool"),
            keras.layers.Flatten(name="flat"),
            keras.layers.Dense(2, name="head"),
        ]
    )


def made(network: Callable[[], Any], *groups: TensorGroup, **removed: Any) -> tuple[Any, dict[str, str]]:
    def trainer(params: dict[str, Any]) -> ModelTrainer:
        keras.utils.set_random_seed(7)
        optimizer = keras.optimizers.Adam(0.1, weight_decay=0.1)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return ModelTrainer(model=network(), optimizer=optimizer, loss=loss)

    label = TensorGroup("label", (TensorColumn("label", "int64"),))
    data = PreparedData(Store.from_uri("file:///none"), "none", groups, (label,), (), 0, 0.0, "0")
    return AblatedTrainer(trainer, data).trainer_and_replacements({REMOVED: Removal(**removed).to_dict()})


def drawn(rows: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return random.normal(size=(rows, 3)).astype("float32"), random.integers(1, 5, size=(rows, 2))


def test_masked_columns_of_all_inputs_are_zeros() -> None:
    features, ids = drawn(4)
    full, without = (made(two_inputs, FEATURES, IDS, features=names)[0].model for names in ((), ("codes", "user")))
    zeroed = features.copy(), ids.copy()
    zeroed[0][:, 1:] = 0
    zeroed[1][:, 0] = 0
    outputs = np.asarray(without([features, ids]))
    np.testing.assert_array_equal(outputs, np.asarray(full(list(zeroed))))
    exported = framework("keras").export(without, [features, ids])
    np.testing.assert_allclose(framework("keras").open_export(exported)([features, ids])[0], outputs, rtol=1e-5)


def test_a_masked_sequential_model_reads_zeros() -> None:
    def network() -> Any:
        return keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])

    features, _ = drawn(4)
    full, without = (made(network, FEATURES, features=names)[0].model for names in ((), ("age",)))
    zeroed = features * np.array([0, 1, 1], np.float32)
    np.testing.assert_array_equal(np.asarray(without(features)), np.asarray(full(zeroed)))


@pytest.mark.parametrize(
    ("path", "described"),
    [
        ("same", "identity"),
        ("strided", "1x1 adapter of 3 to 5 channels, averaged to 4x4 (20 parameters)"),
        ("pool", "average to 2x2"),
        ("flat", "reshape"),
        ("head", "linear projection of 20 to 2 (42 parameters)"),
    ],
)
def test_layers_are_replaced(path: str, described: str) -> None:
    trainer, replacements = made(images, IMAGE, modules=(path,))
    assert replacements == {path: described}
    full = made(images, IMAGE)[0].model
    rows = np.random.default_rng(0).random((4, 8, 8, 3)).astype("float32")
    if path == "same":
        expected = rows
        for layer in full.layers[1:]:
            expected = layer(expected)
        np.testing.assert_allclose(np.asarray(trainer.model(rows)), np.asarray(expected), rtol=1e-5)
    assert trainer.model(rows).shape == (4, 2)
    for layer in full.layers:
        if layer.name != path and layer.weights:
            for one, other in zip(layer.weights, trainer.model.get_layer(layer.name).weights, strict=True):
                np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_a_layer_of_an_inner_model_is_replaced() -> None:
    trainer, replacements = made(two_inputs, FEATURES, IDS, modules=("block/inner",))
    assert replacements == {"block/inner": "identity"}
    names = {"/".join(variable.path.split("/")[-2:]) for variable in trainer.model.trainable_variables}
    assert names == {"film/embeddings", "narrow/kernel", "narrow/bias", "head/kernel", "head/bias"}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("narow", "modules must be modules of the network, got 'narow'; did you mean 'narrow'?"),
        ("film", "without it the network is disconnected from its input"),
        ("joined", "modules must map a tensor to one tensor, got 'joined' (Concatenate) with several"),
    ],
)
def test_layers_that_cannot_be_removed_are_refused(path: str, message: str) -> None:
    with pytest.raises(CerebroError) as raised:
        made(two_inputs, FEATURES, IDS, modules=(path,))
    assert message in str(raised.value)


def test_random_parameters_stay_zero_in_training() -> None:
    trainer, _ = made(two_inputs, FEATURES, IDS, parameters_of=("narrow",), seed=3)
    variables = trainer.model.trainable_variables
    full = made(two_inputs, FEATURES, IDS)[0].model.trainable_variables
    removed = [np.asarray(one) != np.asarray(other) for one, other in zip(variables, full, strict=True)]
    session = open_session(lambda params: trainer, {}, 0)
    features, ids = drawn(64)
    rows = Tensors((features, ids), (np.random.default_rng(1).integers(0, 2, size=64),), 64)
    session.train(rows, np.arange(64), ends_epoch=True)
    session.restore(session.checkpoint())
    session.train(rows, np.arange(64), ends_epoch=True)
    values = [np.asarray(variable) for variable in trainer.model.trainable_variables]
    assert any(marked.any() for marked in removed)
    for value, marked in zip(values, removed, strict=True):
        assert not value[marked].any()
    assert any(value[~marked].any() for value, marked in zip(values, removed, strict=True))
