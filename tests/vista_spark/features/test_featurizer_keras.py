"""``CNNFeaturizer`` on networks of Keras."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from cards import registered
from photographs import crops, encode

pytest.importorskip("tensorflow")

from udfs import images
from udfs.handlers import UntraceableModelError, framework
from udfs.images import Preprocessing
from udfs.inference import POOLINGS, Pooling, pool
from vista_spark import CNNFeaturizer, roster
from vista_spark.roster import FeatureLayer, ModelCard

framework("keras")

import keras
from keras import layers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.contract

MOBILENET = roster.card("keras_mobilenet_v2")
SMALL = MOBILENET.preprocessing.with_size(64)
LAYERS = {"conv1": "Conv1_relu", "block3": "block_2_add", "conv18": "out_relu", "fc": "predictions"}


def rows(df: DataFrame, column: str) -> np.ndarray:
    return np.array([np.asarray(row[column]) for row in df.select("id", column).sort("id").collect()])


def assert_close(found: np.ndarray, expected: np.ndarray, what: str = "") -> None:
    assert found.shape == expected.shape, what
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * max(1.0, np.abs(expected).max()), err_msg=what)


@pytest.fixture(scope="module")
def files() -> list[bytes]:
    return [encode(picture) for _, _, _, picture in crops(5)]


@pytest.fixture(scope="module")
def df(spark: SparkSession, files: list[bytes]) -> DataFrame:
    return spark.createDataFrame(list(enumerate(files)), "id long, image binary").repartition(2)


@pytest.fixture(scope="module")
def mobilenet() -> Any:
    return roster.load(replace(MOBILENET, preprocessing=SMALL), seed=3)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_features_are_those_of_kerass_own_prediction(
    pooling: Pooling, df: DataFrame, files: list[bytes], mobilenet: Any
) -> None:
    plain = keras.Model(mobilenet.input, [mobilenet.get_layer(layer).output for layer in LAYERS.values()])
    outputs = plain.predict_on_batch(np.stack([images.decode(file, SMALL) for file in files]))
    featurizer = CNNFeaturizer(
        model="keras_mobilenet_v2", layers=list(LAYERS), pooling=pooling, imageSize=64, batchSize=3, seed=3
    )
    found = featurizer.transform(df).cache()
    assert featurizer.getOutputCols() == [f"keras_mobilenet_v2_{name}" for name in LAYERS]
    for column, output in zip(featurizer.getOutputCols(), outputs, strict=True):
        maps = np.moveaxis(output, -1, 1) if output.ndim == 4 else output
        assert_close(rows(found, column), pool(maps, pooling), column)
        assert found.schema[column].metadata["ml_attr"]["num_attrs"] == pool(maps, pooling).shape[1]
    found.unpersist()


def test_weights_come_from_a_file(df: DataFrame, files: list[bytes], mobilenet: Any, tmp_path: Path) -> None:
    mobilenet.save_weights(tmp_path / "mine.weights.h5")
    featurizer = CNNFeaturizer(
        model="keras_mobilenet_v2", weights=str(tmp_path / "mine.weights.h5"), imageSize=64, outputCols=["logits"]
    )
    expected = mobilenet.predict_on_batch(np.stack([images.decode(file, SMALL) for file in files]))
    assert_close(rows(featurizer.transform(df), "logits"), expected)


def _notebook() -> Callable[..., Any]:
    """A builder that workers cannot import: it travels by value."""

    def own(input_shape: tuple[int, int, int] = (8, 8, 3)) -> Any:
        x = keras.Input(input_shape)
        y = layers.Conv2D(4, 3, activation="relu", name="conv")(layers.Rescaling(1 / 255)(x))
        y = layers.Conv2D(6, 3, activation="relu")(y)  # named by Keras
        return keras.Model(x, layers.Dense(2, name="head")(layers.GlobalAveragePooling2D(name="pool")(y)))

    return own


CARD = ModelCard(
    name="own",
    builder=_notebook(),
    preprocessing=Preprocessing(crop=8, mean=(0, 0, 0), std=(1, 1, 1), scale=1, layout="NHWC"),
    layers=(FeatureLayer("conv", "conv"), FeatureLayer("head", "head")),
    parameters=4 * 28 + 6 * 37 + 14,
    reference="none",
    framework="keras",
)


@pytest.fixture
def _own_model() -> Iterator[None]:
    with registered(CARD):
        yield


@pytest.mark.usefixtures("_own_model")
def test_a_registered_model(df: DataFrame, files: list[bytes]) -> None:
    keras.layers.Conv2D(1, 1)  # counts on Keras's names, in this process only
    featurizer = CNNFeaturizer(
        model="own", layers=["conv", "conv2d", "head"], pooling="mean", seed=2, outputFormat="array"
    )
    assert featurizer.getOutputCols() == ["own_conv", "own_conv2d", "own_head"]
    network = roster.load("own", seed=2)
    batch = np.stack([images.decode(file, CARD.preprocessing) for file in files])
    found = featurizer.transform(df).cache()
    for layer in ("conv", "conv2d", "head"):
        output = keras.Model(network.input, network.get_layer(layer).output).predict_on_batch(batch)
        expected = output.mean(axis=(1, 2)) if output.ndim == 4 else output
        assert_close(rows(found, f"own_{layer}"), expected, layer)
    found.unpersist()


def test_a_card_of_the_wrong_layout_is_refused() -> None:
    build = CARD.builder
    first = replace(CARD.preprocessing, layout="NCHW")
    with pytest.raises(UntraceableModelError, match=r"the model takes \(8, 8, 3\) .* described is \(3, 8, 8\)"):
        roster.register(replace(CARD, name="wrong", builder=lambda: build((8, 8, 3)), preprocessing=first))
