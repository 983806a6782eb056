# ruff: noqa: PLW0108  (each call makes a layer of its own)
"""Random networks of Keras from a seed: functional, sequential and subclassed models."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from udfs.handlers import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DrawnKeras", "draw_keras", "plain_keras"]


class Own(keras.Model):
    """Subclassed model with layers in a plain list, which Keras tracks, and a function ``middle`` of a map."""

    def __init__(self, middle: Callable[[Any], Any], side: int) -> None:
        super().__init__()
        self.parts = [layers.Conv2D(4, 3, padding="same", activation="relu"), layers.BatchNormalization()]
        self.middle, self.head = middle, layers.Dense(3, name="head")
        self.build((None, side, side, 3))

    def build(self, input_shape: Any) -> None:
        self.parts[0].build(input_shape)
        self.parts[1].build((*input_shape[:-1], 4))
        self.head.build((None, 4))
        self.built = True

    def call(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x, training=False) if isinstance(part, layers.BatchNormalization) else part(x)
        return self.head(ops.mean(self.middle(x), axis=(1, 2)))


@dataclass
class DrawnKeras:
    """Random network with its inputs and expectations; see :class:`drawn_networks.Drawn`."""

    build: Callable[[], Any]
    inputs: tuple[TensorSpec, ...]
    kinds: list[str] = field(default_factory=list)
    refusable: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)


# Of a map, what keeps its shape.
_USUAL: dict[str, Callable[[Any], Any]] = {
    "add": lambda x: layers.add([x, layers.Conv2D(x.shape[-1], 3, padding="same")(x)]),
    "concatenate": lambda x: layers.concatenate([x, ops.sigmoid(x)]),
    "squeeze": lambda x: x * ops.sigmoid(ops.mean(x, axis=(1, 2), keepdims=True)),
    "norm": lambda x: layers.LayerNormalization()(x),
    "batch norm": lambda x: layers.BatchNormalization()(x),
    "separable": lambda x: layers.SeparableConv2D(4, 3, padding="same", activation="gelu")(x),
    "dropout": lambda x: layers.Dropout(0.5)(x),
    "pool": lambda x: layers.MaxPooling2D(2, padding="same")(x),
    "padding": lambda x: layers.ZeroPadding2D(((0, 1), (1, 0)))(x),
    "permute": lambda x: layers.Permute((2, 1, 3))(x),
    "reshape": lambda x: layers.Reshape(x.shape[1:])(layers.Flatten()(x)),
    "where": lambda x: ops.where(x > 0, x, 0.1 * x),
    "upsampling": lambda x: layers.UpSampling2D(2, interpolation="bilinear")(x),
    "lambda": lambda x: layers.Lambda(lambda y: y * 2 - 1)(x),
    "recurrent": lambda x: _sequence(x, layers.GRU(4, return_sequences=True)),
    "attention": lambda x: _attention(x),
    "split": lambda x: ops.concatenate(ops.split(x, 2, axis=1)[::-1], axis=1) if x.shape[1] % 2 == 0 else x,
    "float16": lambda x: layers.Conv2D(4, 1, dtype="mixed_float16")(x),
}
_MIXING: dict[str, Callable[[Any], Any]] = {
    "mean": lambda x: x - ops.mean(x, axis=0, keepdims=True),
    "all": lambda x: x / (1 + ops.max(ops.abs(x))),
    "softmax": lambda x: x + ops.softmax(x, axis=0),
    "flip": lambda x: x + ops.flip(x, axis=0),
}
_ODD: dict[str, Callable[[Any], Any]] = {
    "random": lambda x: x + keras.random.normal(ops.shape(x)),
    "dropout that is on": lambda x: layers.Dropout(0.5)(x, training=True),
    "branch": lambda x: x if ops.max(x) > 0 else -x,
    "numpy": lambda x: ops.convert_to_tensor(np.tanh(np.asarray(x))),
}


def _sequence(x: Any, layer: Any) -> Any:
    _, height, width, channels = x.shape
    y = layer(layers.Reshape((height * width, channels))(x))
    return layers.Reshape((height, width, y.shape[-1]))(y)


def _attention(x: Any) -> Any:
    _, height, width, channels = x.shape
    y = layers.Reshape((height * width, channels))(x)
    return layers.Reshape((height, width, channels))(layers.MultiHeadAttention(2, 4)(y, y))


def _functional(steps: list[Callable[[Any], Any]], side: int, ending: str, nested: bool) -> Any:
    image = x = keras.Input((side, side, 3))
    x = layers.Conv2D(4, 3, padding="same", activation="relu")(x)
    for step in steps:
        x = step(x)
    vector = layers.GlobalAveragePooling2D()(x)
    scores = layers.Dense(3, name="head")(vector)
    returned: Any = {"tensor": scores, "list": [scores, vector], "dict": {"scores": scores, "vector": vector}}[ending]
    model = keras.Model(image, returned)
    if nested and ending == "tensor":
        outer = keras.Input((side, side, 3))
        return keras.Model(outer, layers.Dense(2)(model(outer)))
    return model


def draw_keras(seed: int) -> DrawnKeras:
    """Draw a random network of Keras."""
    draw = random.Random(seed)
    side = draw.choice((6, 8))
    drawn = DrawnKeras(lambda: None, (TensorSpec((side, side, 3)),))
    names = [draw.choice(list(_USUAL)) for _ in range(draw.randint(1, 4))]
    steps = [_USUAL[name] for name in names]
    drawn.kinds += names
    kind = draw.choice(("functional",) * 5 + ("own",) * 3)
    chance = draw.random()
    odd = None
    if chance < 0.2:
        odd = draw.choice(list(_MIXING))
        drawn.refused.add("mixing")
    elif chance < 0.35:
        odd = draw.choice([name for name in _ODD if kind == "own" or name not in ("branch", "numpy")])
        drawn.refused.add("odd")
    if odd is not None:
        drawn.kinds.append(odd)
        steps.append((_MIXING | _ODD)[odd])
    drawn.kinds.append(kind)
    if kind == "functional":
        ending, nested = draw.choice(("tensor", "tensor", "list", "dict")), draw.random() < 0.3
        drawn.kinds += [ending, *(["nested"] if nested else [])]
        drawn.build = lambda: _functional(steps, side, ending, nested)
    else:
        # A call without layers of its own: those would be made anew each time.
        own = [name for name in names if name in ("squeeze", "where", "split")]
        middle = [*(_USUAL[name] for name in own), *steps[len(names) :]]
        drawn.build = lambda: Own(lambda x: _through(middle, x), side)
        drawn.refusable.update({"dropout that is on"} & set(drawn.kinds))
        if draw.random() < 0.2:
            drawn.kinds.append("tensorflow's own function")
            drawn.refusable.add("tensorflow")
            drawn.build = lambda: Own(lambda x: tf.nn.relu(_through(middle, x)), side)
    return drawn


def _through(steps: list[Callable[[Any], Any]], x: Any) -> Any:
    for step in steps:
        x = step(x)
    return x


def plain_keras(net: Any, records: list[np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Call a network on one record at a time, and return the outputs by name."""
    called = []
    for row in range(len(records[0])):
        inputs = [ops.convert_to_tensor(array[row : row + 1]) for array in records]
        returned = net(inputs[0] if len(inputs) == 1 else inputs, training=False)
        entries = returned.items() if isinstance(returned, dict) else enumerate(keras.tree.flatten(returned))
        called.append({str(key): np.asarray(value, np.float32)[0] for key, value in entries})
    return called
