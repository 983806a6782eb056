"""Inputs of a network, images or text: a column becomes its inputs, and its layers become features."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from PIL import Image

from udfs.driver import check_image, check_numbers, check_text
from udfs.images import ImageError
from udfs.inference import POOLINGS, ImageFeed, NumbersFeed, TextError, TextFeed, Tokenization
from vista_spark.errors import InvalidArgumentError, WeightsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from udfs.handlers import TensorSpec
    from udfs.images import Preprocessing, Preprocessings
    from udfs.inference import Feed, Pooling
    from vista_spark.roster import FeatureLayer, ModelCard

__all__ = ["TEXT_POOLINGS", "Images", "Layers", "Texts", "reads"]

TEXT_POOLINGS = ("mean", "cls", "none")
"""The mean of the tokens that are not padding, the first token, or all of them one after the other."""

# A photograph of ImageNet's commonest size; noise at a low resolution, so that a JPEG of it is neither tiny nor huge.
_SIZE = (500, 375)
_GRAIN = (125, 94)


@dataclass(frozen=True, slots=True)
class Images:
    """A column of images."""

    preprocessing: Preprocessing | Preprocessings

    kind = "image"
    error = ImageError
    poolings = POOLINGS
    has_layouts = True

    def resized(self, image_size: int | None, max_length: int | None) -> Images:
        """Return a copy for another image size."""
        if max_length is not None:
            raise InvalidArgumentError(f"max_length must be None for a model of images, got {max_length}.")
        return self if image_size is None else Images(self.preprocessing.with_size(image_size))

    @property
    def max_pixels(self) -> int:
        """Largest image that is decoded, in pixels."""
        return max(part.max_pixels for part in self.preprocessing.parts)

    def limited(self, max_pixels: int) -> Images:
        """Return a copy with another limit of pixels per image."""
        return Images(self.preprocessing.with_limit(max_pixels))

    def pooled(self, card: ModelCard, layer: FeatureLayer, pooling: str) -> str:  # as of texts
        """Name the module that gives a layer's features."""
        return layer.module

    def remaining_pooling(self, pooling: str) -> Pooling:
        """Return the part of a pooling that remains outside of the network: all of it."""
        return cast("Pooling", pooling)

    def feeds(self, inputs: Sequence[str], columns: Sequence[str]) -> tuple[Feed, ...]:
        """Feed the graph's inputs, each from a column of its own."""
        parts = zip(columns, inputs, self.preprocessing.parts, strict=True)
        return tuple(ImageFeed(column, layer, preprocessing) for column, layer, preprocessing in parts)

    @property
    def columns(self) -> int:
        """Columns that the network reads."""
        return len(self.preprocessing.parts)

    def check(self, df: DataFrame, column: str, what: str) -> None:
        """Raise ``ColumnError`` unless a column is of a type that holds images."""
        check_image(df, column, what)

    def sample(self) -> Any:
        """A value to measure with: a photograph of ordinary size."""
        grain = np.random.default_rng(0).integers(0, 256, (_GRAIN[1], _GRAIN[0], 3), dtype=np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(grain).resize(_SIZE).save(buffer, "JPEG", quality=90)
        return buffer.getvalue()


@dataclass(frozen=True, slots=True)
class Texts:
    """A column of text."""

    preprocessing: Tokenization

    kind = "text"
    error = TextError
    poolings = TEXT_POOLINGS
    has_layouts = False

    def resized(self, image_size: int | None, max_length: int | None) -> Texts:
        """Return a copy for another number of tokens."""
        if image_size is not None:
            raise InvalidArgumentError(f"image_size must be None for a model of texts, got {image_size}.")
        return self if max_length is None else Texts(self.preprocessing.with_size(max_length))

    def pooled(self, card: ModelCard, layer: FeatureLayer, pooling: str) -> str:
        """Name the module that gives a layer's features; pooling over tokens needs the mask: it is in the network."""
        if pooling == "none":
            return layer.module
        if layer not in card.layers:
            known = ", ".join(entry.name for entry in card.layers)
            raise InvalidArgumentError(
                f'pooling={pooling!r} is of the layers {known}: for {layer.name!r} take pooling="none"'
            )
        return f"{pooling}.{card.layers.index(layer)}"

    def remaining_pooling(self, pooling: str) -> Pooling:  # as of images
        """Return the part of a pooling that remains outside of the network: nothing."""
        return "none"

    @property
    def columns(self) -> int:
        """Columns that the network reads."""
        return 1

    def feeds(self, inputs: Sequence[str], columns: Sequence[str]) -> tuple[Feed, ...]:
        """Feed the graph's two inputs from one column."""
        if self.preprocessing.tokenizer is None:
            raise WeightsError(
                "a text encoder needs the tokenizer that its weights were trained with: "
                "weights names a folder that has model.safetensors and tokenizer.json"
            )
        ids, mask = inputs
        (column,) = columns
        return (TextFeed(column, ids, mask, self.preprocessing),)

    def check(self, df: DataFrame, column: str, what: str) -> None:
        """Raise ``ColumnError`` unless a column is text."""
        check_text(df, column, what)

    def sample(self) -> Any:
        """A value to measure with: the most tokens that a text may have."""
        return "a " * self.preprocessing.max_length


@dataclass(frozen=True, slots=True)
class Layers:
    """A column of a layer's tensors, where the user has materialised the layer before (``start_layer``)."""

    images: Images
    spec: TensorSpec

    kind = "tensor"
    error = ImageError
    poolings = POOLINGS
    has_layouts = True
    columns = 1

    @property
    def preprocessing(self) -> Preprocessing | Preprocessings:
        """Preprocessing of the images that the tensors were computed from."""
        return self.images.preprocessing

    def pooled(self, card: ModelCard, layer: FeatureLayer, pooling: str) -> str:
        """Name the module that gives a layer's features."""
        return self.images.pooled(card, layer, pooling)

    def remaining_pooling(self, pooling: str) -> Pooling:
        """Return the part of a pooling that remains outside of the network: all of it."""
        return self.images.remaining_pooling(pooling)

    def feeds(self, inputs: Sequence[str], columns: Sequence[str]) -> tuple[Feed, ...]:
        """Feed the layer that the network begins with."""
        return (NumbersFeed(columns[0], inputs[0], self.spec),)

    def check(self, df: DataFrame, column: str, what: str) -> None:
        """Raise ``ColumnError`` unless a column is of vectors or arrays of numbers."""
        check_numbers(df, column, what)

    def sample(self) -> Any:
        """A value to measure with."""
        return np.ones(math.prod(self.spec.shape), np.float32)


def reads(card: ModelCard) -> Images | Texts:
    """Describe the input of a model of the roster."""
    preprocessing = card.preprocessing
    return Texts(preprocessing) if isinstance(preprocessing, Tokenization) else Images(preprocessing)
