"""The Keras CNN of six convolutions, trained on CIFAR-10, with the last of them fine-tuned on other pictures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import keras

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["CONVOLUTIONS", "Cnn", "fine_tuned"]

CONVOLUTIONS = 6


@dataclass(frozen=True)
class Cnn:
    """A network in two parts, and the whole, on the same variables.

    Attributes
    ----------
    whole, frozen, branch : keras.Model
        The whole reads images ``(N, 3, 32, 32)`` between 0 and 1; the branch what the frozen part gives.
    """

    whole: Any
    frozen: Any
    branch: Any


def fine_tuned(path: Path, top: int, classes: int = 10) -> Cnn:
    """Build the network with its last convolutions, their batch norms and new dense layers learning.

    Parameters
    ----------
    path : Path
        Of the trained network.
    top : int
        Convolutions that learn, from the end.
    classes : int
    """
    layers, weights = _trained(path)
    # Dropout below the cut is left out, as where a base is called with training=False.
    layers = [config for config in layers if config["class_name"] != "Dropout"]
    places = [place for place, config in enumerate(layers) if config["class_name"] == "Conv2D"]
    ends = next(place for place, config in enumerate(layers) if config["class_name"] == "Flatten")
    cut = places[CONVOLUTIONS - top]
    image = keras.Input((3, 32, 32), name="image")
    x = keras.layers.Rescaling(255.0, name="bytes")(keras.layers.Permute((2, 3, 1), name="channels_last")(image))
    for config in layers[:cut]:
        x = _layer(config, weights, trainable=False)(x)
    frozen = keras.Model(image, x, name="frozen")
    features = y = keras.Input(x.shape[1:], name="features")
    above = [_layer(config, weights, trainable=True) for config in layers[cut:ends]]
    above += [keras.layers.Flatten(), keras.layers.Dense(128, activation="relu", name="dense")]
    above.append(keras.layers.Dense(classes, name="scores"))
    for layer in above:
        x, y = layer(x), layer(y)
    return Cnn(keras.Model(image, x, name="whole"), frozen, keras.Model(features, y, name="branch"))


def _layer(config: dict[str, Any], weights: dict[str, Any], *, trainable: bool) -> Any:
    layer = keras.layers.deserialize(config)
    layer.trainable = trainable
    # Those with weights are built: their configuration has the shapes.
    if weights[layer.name]:
        layer.set_weights(weights[layer.name])
    return layer


@lru_cache(maxsize=1)
def _trained(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Read the trained network's layers and weights, once a process."""
    import warnings  # as the file was written by an older Keras

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = keras.models.load_model(path, compile=False)
    configs = [keras.layers.serialize(layer) for layer in network.layers]
    return configs, {layer.name: layer.get_weights() for layer in network.layers}
