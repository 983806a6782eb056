"""Open any image value as one kind of picture: upright 8-bit RGB."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from udfs.images._errors import ImageError
from udfs.images._file_reader import read
from udfs.images._pillow import CORRUPT, MAX_PIXELS, check_pixels, load

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["IMAGE_FIELDS", "open_rgb"]

# Spark's `image` schema borrows OpenCV's type codes: 8 bits unsigned in 1, 3 and 4 channels.
_STRUCT_MODES = {0: ("L", "L", 1), 16: ("RGB", "BGR", 3), 24: ("RGBA", "BGRA", 4)}
IMAGE_FIELDS = ("height", "width", "nChannels", "mode", "data")
"""Fields of Spark's ``image`` struct that hold the picture; its sixth, ``origin``, is where it came from."""
_WHITE = (255, 255, 255)

# Tags of a TIFF file, their values, and the numbers from which on 32 bits are used in full.
_BITS_PER_SAMPLE, _SAMPLE_FORMAT = 258, 339
_INTEGER_BITS, _UNSIGNED, _UPPER_HALF = 32, 1, 1 << 31


def open_rgb(
    value: Any, max_pixels: int = MAX_PIXELS, resized: Callable[[tuple[int, int]], tuple[int, int]] | None = None
) -> Image.Image:
    """Open one image as a loaded, upright 8-bit RGB picture.

    The size is that in which it is stored. Raise ImageError for null or a bad image, such as one larger than
    ``max_pixels``, and TypeError for a type that never holds an image: the column is wrong, not the row.

    * Transparent images are laid over white, since transparent pixels carry arbitrary colours underneath.
    * 16-bit grey keeps its high byte, which is what Pillow does to 16-bit colour.
    * 32-bit integer grey of a TIFF file is scaled by its largest number: up to 255 and up to 65535 as 8 and 16 bits, in
      the upper half of 32 bits by its high byte. Any other is refused, because nothing tells which number is white.
    * Float grey of at most 1 is taken as a fraction of white, otherwise as 0..255.
    * CMYK is converted without a colour profile.
    * With ``resized``, large JPEG files are decoded at a fraction of their size, as :func:`load` describes.
    """
    if value is None:
        raise ImageError("null")
    if isinstance(value, str | os.PathLike):
        image = load(read(os.fspath(value)), max_pixels, resized)
    elif isinstance(value, bytes | bytearray | memoryview):
        image = load(bytes(value), max_pixels, resized)
    elif isinstance(value, Mapping):
        image = _from_struct(value, max_pixels)
    else:
        raise TypeError(
            "an image must be encoded bytes, a path or URI, or a mapping (Spark's image struct), got "
            f"{type(value).__name__}."
        )
    return image if image.mode == "RGB" and "transparency" not in image.info else _to_rgb(image)


def _from_struct(value: Mapping[str, Any], max_pixels: int) -> Image.Image:
    if missing := [name for name in IMAGE_FIELDS if name not in value]:
        raise TypeError(f"an image struct must have the fields {', '.join(IMAGE_FIELDS)}, got one without {missing}.")
    height, width, channels, mode, data = (value[k] for k in ("height", "width", "nChannels", "mode", "data"))
    if height is None or width is None or mode is None or data is None:
        raise ImageError("null")
    if height == -1:
        raise ImageError("Spark could not decode the file")
    if mode not in _STRUCT_MODES or channels != _STRUCT_MODES[mode][2]:
        raise ImageError("unsupported mode of Spark's image struct", f"mode {mode} with {channels} channels")
    if height < 1 or width < 1 or len(data) != height * width * channels:
        raise ImageError("wrong length of data", f"{len(data)} bytes for {height} x {width} x {channels}")
    check_pixels(width, height, max_pixels)
    pillow, raw, _ = _STRUCT_MODES[mode]
    return Image.frombuffer(pillow, (width, height), bytes(data), "raw", raw, 0, 1)


def _to_rgb(image: Image.Image) -> Image.Image:
    try:
        if image.mode == "F" or image.mode.startswith("I"):
            image = Image.fromarray(_to_8_bits(image))
        if image.has_transparency_data:
            image = image.convert("RGBA")
            canvas = Image.new("RGB", image.size, _WHITE)
            canvas.paste(image, mask=image)
            return canvas
        return image.convert("RGB")
    except ImageError:
        raise
    except CORRUPT as error:
        raise ImageError("unsupported colour mode", image.mode) from error


def _of_32_bits(image: Image.Image) -> np.ndarray[Any, Any] | None:
    """Return the 8-bit pixels of a TIFF file of 32-bit integers; ``None`` for another image, or if it has 16 bits."""
    tags = getattr(image, "tag_v2", {})
    bits = tags.get(_BITS_PER_SAMPLE, 0)
    if image.mode != "I" or _INTEGER_BITS not in (bits if isinstance(bits, tuple) else (bits,)):
        return None
    pixels: np.ndarray[Any, Any] = np.asarray(image)
    kind = tags.get(_SAMPLE_FORMAT, _UNSIGNED)
    if _UNSIGNED in (kind if isinstance(kind, tuple) else (kind,)):
        pixels = pixels.view(np.uint32)  # Pillow reads them as signed
        if pixels.max() >= _UPPER_HALF:
            return (pixels >> 24).astype(np.uint8)
    return pixels.astype(np.uint8) if pixels.min() >= 0 and pixels.max() <= 255 else None


def _to_8_bits(image: Image.Image) -> np.ndarray[Any, np.dtype[np.uint8]]:
    scaled_down = _of_32_bits(image)
    if scaled_down is not None:
        return scaled_down
    # Pillow's own conversions of these modes clip at 255, which turns a 16-bit photograph white.
    pixels: np.ndarray[Any, Any] = np.asarray(image)
    if not np.isfinite(pixels).all():
        raise ImageError("pixels are not finite")
    top = 255 if image.mode == "F" else 65535
    if pixels.min() < 0 or pixels.max() > top:
        raise ImageError("pixels out of range", f"not within 0..{top}")
    if image.mode == "F":
        scaled = pixels * np.float32(255 if pixels.max() <= 1 else 1)
        del pixels  # a photograph may take most of the memory
        return np.rint(scaled, out=scaled).astype(np.uint8)
    grey = (pixels // 256).astype(np.uint8)
    if isinstance(transparent := image.info.get("transparency"), int):
        grey[pixels == transparent] = 255
    return grey
