"""Features of layers of Keras whatever their layout: maps with the channels last or first, tokens, and vectors."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

pytest.importorskip("tensorflow")

from optimizer.errors import InvalidArgumentError
from udfs.handlers import framework
from udfs.images import Preprocessing
from vista_spark import CNNFeaturizer, roster
from vista_spark.mlflow._load import FeatureModel

framework("keras")

import keras
from keras import layers

WIDTH, SIDE = 6, 4
LAYERS = ["patches", "first", "tokens", "class_token", "mixed", "head"]


@pytest.fixture(scope="module")
def network() -> Any:
    keras.utils.set_random_seed(1)
    x = keras.Input((32, 32, 3))
    patches = layers.Conv2D(WIDTH, 8, strides=8, name="patches")(x)
    first = layers.Permute((3, 1, 2), name="first")(patches)
    tokens = layers.Reshape((SIDE * SIDE, WIDTH), name="tokens")(patches)
    token = layers.Reshape((1, WIDTH))(layers.GlobalMaxPooling2D()(patches))
    joined = layers.Concatenate(axis=1, name="class_token")([token, tokens])
    mixed = layers.LayerNormalization(name="mixed")(joined + layers.MultiHeadAttention(2, WIDTH // 2)(joined, joined))
    vector = layers.Concatenate()([mixed[:, 0], layers.Flatten()(first)])
    return keras.Model(x, layers.Dense(3, name="head")(vector))


@pytest.fixture(scope="module")
def card(network: Any) -> roster.ModelCard:
    plain = Preprocessing(crop=32, mean=(0, 0, 0), std=(1, 1, 1), layout="NHWC")
    return roster.of(network, preprocessing=plain, layers=LAYERS)


@pytest.fixture(scope="module")
def picture() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def seen(network: Any, picture: np.ndarray) -> dict[str, np.ndarray]:
    outputs = keras.Model(network.input, [network.get_layer(name).output for name in LAYERS])
    values = outputs.predict_on_batch(picture[None].astype(np.float32) / 255)
    return {name: np.asarray(value)[0] for name, value in zip(LAYERS, values, strict=True)}


def features(card: roster.ModelCard, layer: str, picture: np.ndarray, **settings: Any) -> np.ndarray:
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "PNG")
    model = FeatureModel(CNNFeaturizer(model=card, layers=[layer], **settings))
    return np.array(model.predict(pd.DataFrame({"image": [file.getvalue()]})).iloc[0, 0])


def channels_first(name: str, value: np.ndarray) -> np.ndarray:
    """Lay a layer's output out as a map of shape (channels, rows, columns), without other tokens."""
    places = value[1:] if name in {"class_token", "mixed"} else value
    return value if name == "first" else np.moveaxis(places.reshape(SIDE, SIDE, WIDTH), -1, 0)


@pytest.mark.parametrize("name", LAYERS[:-1])
def test_every_layer_is_pooled_over_its_places(
    name: str, card: roster.ModelCard, picture: np.ndarray, seen: dict[str, np.ndarray]
) -> None:
    maps = channels_first(name, seen[name])
    grid = maps.reshape(WIDTH, 2, SIDE // 2, 2, SIDE // 2).max((2, 4))
    for pooling, expected in (("mean", maps.mean((1, 2))), ("max2x2", grid.ravel())):
        found = features(card, name, picture, pooling=pooling)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=pooling)


@pytest.mark.parametrize("name", LAYERS)
def test_without_pooling_numbers_keep_an_order(
    name: str, card: roster.ModelCard, picture: np.ndarray, seen: dict[str, np.ndarray]
) -> None:
    """Maps are channel by channel as those of torch; tokens and vectors are as the layer has them."""
    value = seen[name]
    expected = channels_first(name, value) if name == "patches" else value
    found = features(card, name, picture, pooling="none")
    np.testing.assert_allclose(found, expected.ravel(), rtol=1e-4, atol=1e-5)


def test_a_vector_is_not_pooled(card: roster.ModelCard, picture: np.ndarray, seen: dict[str, np.ndarray]) -> None:
    for pooling in ("mean", "max2x2"):
        np.testing.assert_allclose(features(card, "head", picture, pooling=pooling), seen["head"], rtol=1e-4, atol=1e-5)


def test_a_stated_layout_replaces_the_recognised_one(
    card: roster.ModelCard, picture: np.ndarray, seen: dict[str, np.ndarray]
) -> None:
    stated = {
        "patches": ("channels_first", seen["patches"].mean((1, 2))),
        "first": ("channels_last", seen["first"].mean((0, 1))),
        "class_token": ("tokens", seen["class_token"].mean(0)),
        "mixed": ("tokens+2", seen["mixed"][2:].mean(0)),
        "tokens": ("vector", seen["tokens"].ravel()),
    }
    for name, (layout, expected) in stated.items():
        found = features(card, name, picture, pooling="mean", layout={name: layout})
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=name)
    with pytest.raises(InvalidArgumentError, match="must leave at least one token, got 'tokens\\+17'"):
        features(card, "mixed", picture, pooling="mean", layout={"mixed": "tokens+17"})
