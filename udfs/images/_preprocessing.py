"""Settings that turn an image into a network's input: a value that travels with the model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Literal, get_args

from optimizer.arguments import one_of
from optimizer.errors import InvalidArgumentError
from udfs.images._pillow import MAX_PIXELS
from udfs.tensors import TensorSpec

__all__ = ["Layout", "Preprocessing", "Preprocessings", "Resample"]

Layout = Literal["NCHW", "NHWC"]
"""Order of the axes of a batch of feature maps: channels before height and width (torch), or last (Keras)."""

Resample = Literal["nearest", "bilinear", "bicubic", "lanczos", "box", "hamming"]
"""Filter of a resize: a filter of Pillow. All except ``"nearest"`` average over the pixels that become one."""

_SIDES = 2


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """Resize, centre crop, scale and normalise, in that order.

    The arithmetic is ``(pixel * scale - mean) / std``, channel by channel, on ``float32`` numbers, the channels in the
    order of ``channels``.

    Parameters
    ----------
    crop : int
        Height and width of the network's input, in pixels.
    resize : int, pair of int, or None
        The shorter side is first resized to this many pixels, the aspect ratio kept; a pair is height and width, the
        aspect ratio lost; ``None`` is ``(crop, crop)``.
    mean, std : tuple of 3 float
        In units of the scaled pixel, in ``channels`` order.
    scale : float
        Factor applied to the 8-bit pixel value.
    channels : {"RGB", "BGR"}
        Order of the channels.
    layout : {"NCHW", "NHWC"}
        Position of the channels in an image: first axis, or last.
    resample : {"bilinear", "bicubic", "lanczos", "box", "hamming", "nearest"}
        Pillow's filter for the resize.
    crop_start : {"rounded", "floor"}
        Start of the crop if an odd number of pixels is cut away (or padded): half of it, rounded to the even
        neighbour (and up for padding), as torchvision does (default), or rounded down, as ``transformers`` does.
    max_pixels : int
        A larger image is a bad one. It bounds the memory of decoding, to :data:`udfs.images.BYTES_PER_PIXEL` bytes a
        pixel in each worker.

    Raises
    ------
    InvalidArgumentError
        A crop that is a rectangle, a size that is not a whole number of pixels, or an unknown filter.

    Examples
    --------
    >>> Preprocessing(crop=224, resize=256).with_size(299).resize
    342
    """

    crop: int
    resize: int | tuple[int, int] | None = None
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    scale: float = 1 / 255
    channels: Literal["RGB", "BGR"] = "RGB"
    layout: Layout = "NCHW"
    resample: Resample = "bilinear"
    crop_start: Literal["rounded", "floor"] = "rounded"
    max_pixels: int = MAX_PIXELS

    kind = "image"

    def __post_init__(self) -> None:
        object.__setattr__(self, "crop", _pixels("crop", self.crop))
        object.__setattr__(self, "max_pixels", _pixels("max_pixels", self.max_pixels))
        if isinstance(self.resize, list | tuple) and len(self.resize) == _SIDES:
            object.__setattr__(self, "resize", tuple(_pixels("resize", side) for side in self.resize))
        elif self.resize is not None:
            object.__setattr__(self, "resize", _pixels("resize", self.resize))
        for name, value, known in (
            ("resample", self.resample, get_args(Resample)),
            ("crop_start", self.crop_start, ("rounded", "floor")),
        ):
            one_of(f"{name} of Preprocessing", value, known)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one preprocessed image: ``(3, crop, crop)``, or ``(crop, crop, 3)`` with the channels last."""
        return (3, self.crop, self.crop) if self.layout == "NCHW" else (self.crop, self.crop, 3)

    @property
    def parts(self) -> tuple[Preprocessing, ...]:
        """Sequence of this preprocessing alone, for a network with one image input."""
        return (self,)

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Inputs of the network made of one column: one tensor."""
        return (TensorSpec(self.shape),)

    @property
    def size(self) -> str:
        """The input's size in words: ``"224 px"``."""
        return f"{self.crop} px"

    def with_size(self, crop: int) -> Preprocessing:
        """Copy for another input size; ``resize`` keeps its proportion to ``crop``."""
        if self.resize is None:
            return replace(self, crop=crop)
        if isinstance(self.resize, int):
            return replace(self, crop=crop, resize=round(self.resize * crop / self.crop))
        height, width = (round(side * crop / self.crop) for side in self.resize)
        return replace(self, crop=crop, resize=(height, width))

    def with_limit(self, max_pixels: int) -> Preprocessing:
        """Copy for another limit of an image's pixels."""
        return replace(self, max_pixels=max_pixels)


def _pixels(name: str, value: Any) -> int:
    if isinstance(value, Iterable) and not isinstance(value, str):
        raise InvalidArgumentError(
            f"{name} of Preprocessing must be one number, got {value!r}: images are cropped to squares. Give "
            f"{name}={max(value, default=224)!r}, and let the forward of a network that reads rectangles cut its own, "
            "as x[:, :, :height, :width]"
        )
    if value is True or not isinstance(value, Integral) or value < 1:
        raise InvalidArgumentError(
            f"{name} of Preprocessing must be a positive number of pixels, such as 224, got {value!r}."
        )
    return int(value)


@dataclass(frozen=True, slots=True)
class Preprocessings:
    """Settings that turn several images, each in a column of its own, into the inputs of one network.

    Parameters
    ----------
    parts : tuple of Preprocessing
        One an input, in the order of the network's own; of one layout.

    Examples
    --------
    >>> pair = Preprocessings((Preprocessing(crop=224, resize=256), Preprocessing(crop=64)))
    >>> pair.size, [spec.shape for spec in pair.inputs]
    ('224 px + 64 px', [(3, 224, 224), (3, 64, 64)])
    """

    parts: tuple[Preprocessing, ...]

    kind = "image"

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The network's inputs."""
        return tuple(TensorSpec(part.shape) for part in self.parts)

    @property
    def size(self) -> str:
        """The inputs' sizes in words."""
        return " + ".join(part.size for part in self.parts)

    @property
    def crop(self) -> int:
        """Height and width of the first input, in pixels."""
        return self.parts[0].crop

    @property
    def layout(self) -> Layout:
        """Place of the channels in the network's inputs."""
        return self.parts[0].layout

    def with_size(self, crop: int) -> Preprocessings:
        """Copy with one size for all."""
        return Preprocessings(tuple(part.with_size(crop) for part in self.parts))

    def with_limit(self, max_pixels: int) -> Preprocessings:
        """Copy with one limit of an image's pixels for all."""
        return Preprocessings(tuple(part.with_limit(max_pixels) for part in self.parts))
