"""Preprocessing that another library states: timm's configuration, torchvision's and transformers' transforms."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, cast, get_args

from optimizer.errors import InvalidArgumentError
from udfs.images import Preprocessing, Preprocessings, Resample
from udfs.inference import Tokenization
from udfs.roster._image_processor import InexactError, preprocessing_of, prove

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["as_preprocessing", "is_timm_configuration", "timm_preprocessing"]

_RGB = 3

# Defaults of timm where a configuration leaves a key out.
_IMAGENET_MEAN, _IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_CROP_PCT = 0.875
_SIDE = 224

# A configuration of timm has one of these.
_TIMM_KEYS = {"input_size", "crop_pct", "crop_mode"}


def as_preprocessing(stated: Any) -> Any:
    """Convert what states a preprocessing to a :class:`udfs.images.Preprocessing`.

    Parameters
    ----------
    stated : Preprocessing, Preprocessings, Tokenization, mapping, callable or None
        What :func:`udfs.roster.of` takes; besides settings of this project a configuration of timm, a transform of
        torchvision, such as ``weights.transforms()``, or an image processor of ``transformers``.

    Raises
    ------
    InvalidArgumentError
        It cannot be applied in full: a pixel differs from the library's own by more than one grey level of 255.
    """
    if stated is None or isinstance(stated, Preprocessing | Preprocessings | Tokenization):
        return stated
    configuration = _configuration(stated)
    if configuration is not None:
        return timm_preprocessing(configuration, None)
    shown = type(stated).__name__
    if not callable(stated):
        raise InvalidArgumentError(
            "preprocessing must be a Preprocessing, a configuration of timm, a transform of torchvision or an image "
            f"processor of transformers, got a {shown}."
        )
    if hasattr(stated, "image_mean"):
        return preprocessing_of(stated, shown)
    try:
        mapped = _mapped(stated)
        prove(lambda picture: stated(picture).numpy(), mapped, tolerance=_grey_level(mapped))
    except (InexactError, InvalidArgumentError) as error:
        raise InvalidArgumentError(
            f"preprocessing must resize, crop to a square, scale and normalise, got a {shown} that {error}. Give a "
            "Preprocessing of your own"
        ) from error
    return mapped


def is_timm_configuration(stated: Any) -> bool:
    """Return whether an object states a preprocessing as timm does."""
    return _configuration(stated) is not None


def timm_preprocessing(configuration: Any, image_size: int | None) -> Preprocessing:
    """Convert a ``pretrained_cfg`` of timm, to the pixels of ``timm.data.create_transform`` in evaluation.

    Parameters
    ----------
    configuration : mapping or dataclass
        The configuration; keys that it leaves out have timm's defaults.
    image_size : int, optional
        Height and width of the input, in pixels, instead of the configuration's.

    Raises
    ------
    InvalidArgumentError
        It asks for rectangles, other than three channels, a border around the image or an unknown filter.
    """
    settings = _configuration(configuration) or {}
    channels, height, width = settings.get("input_size") or (_RGB, _SIDE, _SIDE)
    mode, resample = settings.get("crop_mode") or "center", settings.get("interpolation") or "bicubic"
    for wanted, got, fits in (
        ("input_size of three channels and one side length", (channels, height, width), channels == _RGB),
        ("input_size of three channels and one side length", (channels, height, width), height == width),
        ('crop_mode "center" or "squash"', mode, mode in ("center", "squash")),
        (f"interpolation of {', '.join(get_args(Resample))}", resample, resample in get_args(Resample)),
    ):
        if not fits and not (image_size and "input_size" in wanted and channels == _RGB):
            raise InvalidArgumentError(
                f"pretrained_cfg must have {wanted} to be applied in full, got {got!r}. Pass preprocessing= to state "
                "what to do instead"
            )
    crop = int(image_size or width)
    side = math.floor(crop / float(settings.get("crop_pct") or _CROP_PCT))
    return Preprocessing(
        crop=crop,
        resize=(side, side) if mode == "squash" else side,
        mean=_triple(settings.get("mean") or _IMAGENET_MEAN),
        std=_triple(settings.get("std") or _IMAGENET_STD),
        resample=cast("Resample", resample),
    )


def _configuration(stated: Any) -> Mapping[str, Any] | None:
    """Return a configuration of timm as a dictionary, ``None`` for anything else."""
    if dataclasses.is_dataclass(stated) and not isinstance(stated, type):
        stated = {field.name: getattr(stated, field.name) for field in dataclasses.fields(stated)}
    if not isinstance(stated, dict):
        return None
    return stated if stated.keys() & _TIMM_KEYS or stated.keys() >= {"mean", "std"} else None


def _mapped(transform: Any) -> Preprocessing:
    """Read the sizes, the filter, the mean and the deviation off a transform of torchvision."""
    steps = {type(step).__name__: step for step in getattr(transform, "transforms", ())}
    resize = steps.get("Resize")
    normalise = steps.get("Normalize", transform if hasattr(transform, "std") else None)
    size = getattr(resize, "size", getattr(transform, "resize_size", None))
    crop = getattr(steps.get("CenterCrop"), "size", getattr(transform, "crop_size", None))
    sides = [_sides(size), _sides(crop if crop is not None else size)]
    if sides[0] is None or sides[1] is None or len(set(sides[1])) != 1 or (crop is None and len(sides[0]) == 1):
        raise InexactError("gives pictures of other shapes than one square")
    filters = [getattr(step, "interpolation", None) for step in (resize, transform)]
    resample = next((str(getattr(value, "value", value)) for value in filters if value is not None), "bilinear")
    if resample not in get_args(Resample):
        raise InexactError(f"resizes by {resample}")
    return Preprocessing(
        crop=sides[1][0],
        resize=sides[0][0] if len(sides[0]) == 1 else (sides[0][0], sides[0][1]),
        mean=_triple(getattr(normalise, "mean", (0.0, 0.0, 0.0))),
        std=_triple(getattr(normalise, "std", (1.0, 1.0, 1.0))),
        resample=cast("Resample", resample),
    )


def _sides(size: Any) -> tuple[int, ...] | None:
    if size is None:
        return None
    sides = tuple(map(int, size)) if isinstance(size, list | tuple) else (int(size),)
    return sides if 1 <= len(sides) <= 2 else None  # one side, or height and width


def _triple(values: Any) -> tuple[float, float, float]:
    listed = [float(value) for value in (values.tolist() if hasattr(values, "tolist") else values)]
    if len(listed) == 1:
        listed *= _RGB
    if len(listed) != _RGB:
        raise InvalidArgumentError(f"mean and std must have three numbers, got {listed}.")
    return listed[0], listed[1], listed[2]


def _grey_level(preprocessing: Preprocessing) -> float:
    """Return one grey level of 255 in the units of the network's input."""
    return 1.001 / 255 / min(preprocessing.std)
