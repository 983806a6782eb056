"""Preprocessing of a network that was given without one: from what the network says, or ImageNet's, and stated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optimizer.errors import InvalidArgumentError
from udfs.images import Preprocessing
from udfs.roster._stated_preprocessing import is_timm_configuration, timm_preprocessing

if TYPE_CHECKING:
    from udfs.handlers import Framework
    from udfs.images import Layout

__all__ = ["assumed_preprocessing", "in_words"]

_CROP = 224
# The part of an image that is left of its shorter side, as torchvision's networks were trained.
_CROP_SHARE = 0.875
_RGB = 3

# Layers of Keras by which a network scales pixels itself.
_OWN_SCALING = ("Rescaling", "Normalization")


def assumed_preprocessing(model: Any, backend: Framework, image_size: int | None) -> tuple[Preprocessing, str]:
    """Find a network's preprocessing, and say in words where it is from.

    The assumptions are empty if the network specifies its preprocessing. Raise InvalidArgumentError if the network
    reads something else than one colour image.
    """
    stated = getattr(model, "pretrained_cfg", None) or getattr(model, "default_cfg", None)
    if stated is not None and is_timm_configuration(stated):
        return timm_preprocessing(stated, image_size), ""
    crop = image_size or _stated_side(model, backend) or _CROP
    layout: Layout = "NHWC" if backend.channels_last else "NCHW"
    shape = getattr(model, "input_shape", None)
    if backend.channels_last and isinstance(shape, tuple):
        crop = image_size or _keras_size(shape, str(getattr(model, "name", "the model")))
        first = [type(layer).__name__ for layer in getattr(model, "layers", ())][:4]
        if any(name in _OWN_SCALING for name in first):
            made = Preprocessing(crop=crop, mean=(0, 0, 0), std=(1, 1, 1), scale=1, layout="NHWC")
            return made, ""
    resize = round(crop / _CROP_SHARE)
    made = Preprocessing(crop=crop, resize=resize, layout=layout)
    return made, f"ImageNet's preprocessing: {in_words(made)}"


def in_words(preprocessing: Preprocessing) -> str:
    """Describe how an image becomes numbers."""
    crop = f"{preprocessing.crop} x {preprocessing.crop}"
    sized = (
        f"resized to {crop} pixels"
        if preprocessing.resize is None
        else f"shorter side resized to {preprocessing.resize} pixels, centre {crop}"
    )
    sized += "" if preprocessing.resample == "bilinear" else f" by {preprocessing.resample}"
    numbers = (
        f"{preprocessing.channels} * {preprocessing.scale:.4g}, mean {preprocessing.mean}, std {preprocessing.std}"
    )
    return f"{sized}, {numbers}"


def _stated_side(model: Any, backend: Framework) -> int | None:
    """Return the side of the square that a model states to read."""
    stated = backend.image_shape(model)
    if stated is None:
        return None
    channels, height, width = stated
    if channels != _RGB or height != width:
        raise InvalidArgumentError(
            f"the network must read one square image in colour, got an exported program that reads {stated}. Export it "
            "for (3, side, side), or pass preprocessing="
        )
    return height


def _keras_size(shape: tuple[Any, ...], name: str) -> int:
    if len(shape) != 1 + _RGB or shape[-1] not in (_RGB, None):
        raise InvalidArgumentError(
            f"{name} reads {shape[1:]}, not one colour image of (height, width, 3): a stage needs a network of images"
        )
    height, width = shape[1:3]
    if height != width:
        raise InvalidArgumentError(
            f"{name} reads images of {height} x {width}: images are cropped to squares; build it with height and width "
            "None, or of one size"
        )
    return int(height or _CROP)
