"""The image processor of a folder of ``transformers`` as :class:`udfs.images.Preprocessing`, proved on pictures."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from PIL import Image

from optimizer.errors import InvalidArgumentError
from udfs.images import Preprocessing, Resample, decode
from udfs.roster._transformers import first_line, quiet, transformers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["InexactError", "preprocessing_of", "prove", "read_preprocessing"]

# Below this size ConvNeXT's processor resizes and crops; from it on it resizes straight to the size.
_CONVNEXT_WARPS = 384
# LeViT's resizes the shorter side to this multiple of its size.
_LEVIT_ENLARGES = 256 / 224
# A grey level is a hundred times as much, whatever the mean and the deviation.
_TOLERANCE = 1e-4


class InexactError(Exception):
    """A processor does what no Preprocessing does; the message completes "its image processor ..."."""


def read_preprocessing(folder: Path, shown: str) -> Preprocessing:
    """Map the image processor of a folder, and compare both on pictures of four shapes.

    Resize rule, crop, filter, factor, mean and deviation are the processor's. The comparison is with its Pillow
    backend: the one on torchvision resizes tensors, and its pixels differ by a grey level here and there. Raise
    InvalidArgumentError if the processor cannot be read, or does what no Preprocessing does: the message says what.
    """
    with quiet():
        try:
            processor = transformers().AutoImageProcessor.from_pretrained(
                folder, backend="pil", trust_remote_code=False
            )
        except Exception as error:
            # Whatever the library raises about a file that it cannot read.
            raise InvalidArgumentError(
                f"preprocessing must be set for {shown}, whose image processor cannot be read ({first_line(error)})."
            ) from error
        return preprocessing_of(processor, shown)


def preprocessing_of(processor: Any, shown: str) -> Preprocessing:
    """Map an image processor, and compare both on pictures; see :func:`read_preprocessing`."""
    try:
        preprocessing = _mapped(processor)
        prove(lambda picture: processor(picture, return_tensors="np")["pixel_values"][0], preprocessing)
    except (InexactError, InvalidArgumentError) as error:
        raise InvalidArgumentError(
            f"preprocessing must be set for {shown}, whose image processor, a {type(processor).__name__}, {error}: "
            "no Preprocessing gives exactly the same pixels"
        ) from error
    return preprocessing


def _mapped(processor: Any) -> Preprocessing:
    crop, resize = _geometry(processor)
    mean, std = _statistics(processor)
    return Preprocessing(
        crop=crop,
        resize=resize,
        mean=mean,
        std=std,
        scale=float(processor.rescale_factor) if processor.do_rescale else 1.0,
        channels="BGR" if getattr(processor, "do_flip_channel_order", False) else "RGB",
        resample=_filter(processor.resample),
        crop_start="floor",
    )


def _geometry(processor: Any) -> tuple[int, int | tuple[int, int] | None]:
    """Return the crop size and the size to which the image is resized before."""
    if not processor.do_resize:
        raise InexactError("does not resize, so that each picture has a size of its own")
    if getattr(processor, "do_pad", None):
        raise InexactError("pads pictures to the largest of a batch")
    size = _sides(processor.size)
    crop_pct = getattr(processor, "crop_pct", None)
    if crop_pct is not None and isinstance(size, int):
        if processor.do_center_crop:
            return _square(_sides(processor.crop_size)), int(size / crop_pct)
        return (size, int(size / crop_pct)) if size < _CONVNEXT_WARPS else (size, None)
    if type(processor).__name__.startswith("Levit") and isinstance(size, int):
        size = int(_LEVIT_ENLARGES * size)
    if processor.do_center_crop:
        crop = _sides(processor.crop_size)
        return _square(crop), size
    if isinstance(size, int):
        raise InexactError(
            f"resizes the shorter side to {size} and does not crop, so that each picture has its own shape"
        )
    return _square(size), None


def _sides(size: Any) -> int | tuple[int, int]:
    """Return the length of the shorter side, or height and width."""
    wanted = {key: value for key, value in dict(size).items() if value is not None}
    if set(wanted) == {"shortest_edge"}:
        return int(wanted["shortest_edge"])
    if set(wanted) == {"height", "width"}:
        return int(wanted["height"]), int(wanted["width"])
    raise InexactError(f"resizes by {wanted}")


def _square(sides: int | tuple[int, int]) -> int:
    height, width = (sides, sides) if isinstance(sides, int) else sides
    if height != width:
        raise InexactError(f"gives rectangles of {height} x {width} pixels")
    return height


def _statistics(processor: Any) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Mean and deviation, with EfficientNet's extra steps: less one, and divided by the deviation once more."""
    mean, std = np.zeros(3), np.ones(3)
    if processor.do_normalize:
        mean, std = _channels(processor.image_mean), _channels(processor.image_std)
    if getattr(processor, "rescale_offset", False) and processor.do_rescale:
        mean = mean + 1
    if getattr(processor, "include_top", False):
        std = std * _channels(processor.image_std)
    return _triple(mean), _triple(std)


def _channels(values: Any) -> NDArray[np.float64]:
    try:
        return np.broadcast_to(np.asarray(values, np.float64), (3,))
    except ValueError:
        raise InexactError(f"has {len(values)} channels") from None


def _triple(values: NDArray[np.float64]) -> tuple[float, float, float]:
    first, second, third = values.tolist()
    return first, second, third


def _filter(resample: Any) -> Resample:
    known: dict[str, Resample] = {name: name for name in get_args(Resample)}
    # The library's default where a processor has none.
    name = Image.Resampling(2 if resample is None else int(resample)).name.lower()
    return known[name]


def prove(
    transform: Callable[[Image.Image], Any], preprocessing: Preprocessing, tolerance: float | None = None
) -> None:
    """Compare a transform with a preprocessing on pictures of four shapes.

    The tolerance is an absolute difference of the results. By default it is a hundredth of a grey level.

    Raises
    ------
    InexactError
        The transform fails, or gives other pixels or another shape.
    """
    for picture in _pictures(preprocessing.crop):
        try:
            theirs = np.asarray(transform(picture))
        except Exception as error:
            raise InexactError(f"fails on a picture of {picture.size} pixels ({first_line(error)})") from error
        file = io.BytesIO()
        picture.save(file, "PNG", compress_level=0)
        ours = decode(file.getvalue(), preprocessing)
        if theirs.shape != ours.shape:
            raise InexactError(f"gives an array of shape {theirs.shape} of a picture of {picture.size} pixels")
        difference = float(np.abs(theirs - ours).max())
        allowed = _TOLERANCE * max(1.0, float(np.abs(theirs).max())) if tolerance is None else tolerance
        if not difference <= allowed:
            raise InexactError(
                f"gives pixels that differ by up to {difference:.3g} on a picture of {picture.size} pixels"
            )


def _pictures(crop: int) -> Iterator[Image.Image]:
    """Noise, in which every wrong pixel shows: wide, tall, odd, and smaller than the crop."""
    random = np.random.default_rng(0)
    for height, width in (
        (crop + 37, 2 * crop + 52),
        (2 * crop + 51, crop + 38),
        (crop, crop + 3),
        (crop // 2 + 1,) * 2,
    ):
        yield Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8))
