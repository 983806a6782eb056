"""Encoded bytes to a loaded Pillow image: one place that knows how Pillow fails."""

from __future__ import annotations

import contextlib
import struct
import threading
import warnings
import zlib
from io import BytesIO
from typing import TYPE_CHECKING

from PIL import Image, ImageFile
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from udfs.images._errors import ImageError
from udfs.images._isobmff import isobmff_reader
from udfs.images._jpeg import open_jpeg, shrink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["BYTES_PER_PIXEL", "CORRUPT", "MAX_PIXELS", "check_pixels", "load"]

MAX_PIXELS = 178_956_970
"""Largest image that is decoded by default, in pixels: where Pillow itself stops, 512 MiB of 24-bit colour."""

BYTES_PER_PIXEL = 18
"""Memory that a worker takes while it decodes an image, at most, in bytes per pixel.

Pillow holds colour in four bytes a pixel: a JPEG takes 4, and 8 where it is turned upright, a PNG up to 12, a WEBP and
32-bit grey up to 17.
"""

# What Pillow's readers let out when their input is bad. MemoryError is absent: below MAX_PIXELS it is the machine's.
CORRUPT = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    BufferError,
    EOFError,
    RuntimeError,
    struct.error,
    zlib.error,
)


# The readers are called directly and not through Image.open: that one warns from half of MAX_PIXELS on, and warnings
# cannot be silenced in one thread only; it would also try formats whose readers start other programs (EPS).
_JPEG = b"\xff\xd8\xff"
_READERS: tuple[tuple[bytes, int, type[ImageFile.ImageFile]], ...] = (
    (b"\x89PNG\r\n\x1a\n", 0, PngImageFile),
    (b"WEBP", 8, WebPImageFile),
    (b"GIF8", 0, GifImageFile),
    (b"BM", 0, BmpImageFile),
    (b"II*\0", 0, TiffImageFile),
    (b"MM\0*", 0, TiffImageFile),
    (b"II+\0", 0, TiffImageFile),
    (b"MM\0+", 0, TiffImageFile),
)
_WARNINGS = threading.Lock()


def load(
    data: bytes, max_pixels: int = MAX_PIXELS, resized: Callable[[tuple[int, int]], tuple[int, int]] | None = None
) -> Image.Image:
    """Decode one file, its first frame if it has several, in the mode that it is stored in, upright.

    Parameters
    ----------
    data : bytes
        A JPEG, PNG, WEBP, GIF, BMP or TIFF file; an AVIF or HEIC file if Pillow or its plugin ``pillow-heif`` decodes
        it.
    max_pixels : int
        Larger images are refused before they are decoded.
    resized : callable, optional
        Maps the height and width of an image to those that it will be resized to. A larger JPEG is then decoded at a
        half, a fourth or an eighth of its size, if that is within `max_pixels` and still as large as the result.

    Returns
    -------
    PIL.Image.Image
        Loaded; turned by its EXIF orientation.

    Raises
    ------
    ImageError
        Empty, none of the formats, of one that cannot be decoded here, truncated, corrupt, or of more than `max_pixels`
        pixels.
    """
    if not data:
        raise ImageError("empty file")
    reader = next((r for magic, at, r in _READERS if data.startswith(magic, at)), None) or isobmff_reader(data)
    is_jpeg = data.startswith(_JPEG)
    if reader is None and not is_jpeg:
        raise ImageError("not a JPEG, PNG, WEBP, GIF, BMP or TIFF image")
    try:
        with _quiet(reader, data):
            if reader is not None:
                image = reader(BytesIO(data))
            else:
                image = open_jpeg(data)
                if resized is not None:
                    shrink(image, max_pixels, resized((image.height, image.width)))
            check_pixels(*image.size, max_pixels)
            image.load()
            # Pillow turns a TIFF by itself, while loading.
            return image if reader is TiffImageFile else _upright(image)
    except ImageError:
        raise
    except Image.DecompressionBombError as error:
        raise ImageError("too many pixels", f"more than {max_pixels}") from error
    except CORRUPT as error:
        kind = "JPEG" if reader is None else "HEIC" if reader.format == "HEIF" else reader.format
        raise ImageError(f"truncated or corrupt {kind} file") from error


def check_pixels(width: int, height: int, max_pixels: int = MAX_PIXELS) -> None:
    """Refuse an image of more than `max_pixels` pixels before memory is allocated for it."""
    if width * height > max_pixels:
        raise ImageError("too many pixels", f"{width} x {height} is more than {max_pixels}")


@contextlib.contextmanager
def _quiet(reader: type[ImageFile.ImageFile] | None, data: bytes) -> Iterator[None]:
    # Silencing changes the whole process's filters, so it is locked and kept off the formats of the hot path. What is
    # damaged enough to matter raises an error as well.
    if reader in (TiffImageFile, GifImageFile) or (reader is PngImageFile and b"acTL" in data):
        with _WARNINGS, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    else:
        yield


_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def _upright(image: Image.Image) -> Image.Image:
    exif = image.info.get("exif")
    turn = _TURNS.get(_orientation(exif)) if isinstance(exif, bytes) else None
    if turn is None:
        return image
    turned = image.transpose(turn)
    turned.info = image.info
    return turned


def _orientation(exif: bytes) -> int:
    # Pillow's own parser warns about damaged blocks and reads every tag; a good picture is kept whatever its EXIF says.
    block = exif.removeprefix(b"Exif\0\0")
    order = {b"II": "<", b"MM": ">"}.get(block[:2])
    if order is None:
        return 1
    try:
        (start,) = struct.unpack_from(f"{order}I", block, 4)
        (count,) = struct.unpack_from(f"{order}H", block, start)
        for entry in range(start + 2, start + 2 + 12 * count, 12):
            tag, kind = struct.unpack_from(f"{order}HH", block, entry)
            if tag == 0x0112:  # (Orientation, EXIF 2.3 section 4.6.4; SHORT, by some cameras LONG)
                return int(struct.unpack_from(f"{order}{'I' if kind == 4 else 'H'}", block, entry + 8)[0])
    except struct.error:
        pass
    return 1
