"""Resize, centre crop and normalise one image: the inner loop of every job that reads pictures."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from udfs.images._errors import ImageError
from udfs.images._geometry import picture_geometry
from udfs.images._pillow import check_pixels
from udfs.images._rgb import open_rgb

if TYPE_CHECKING:
    from udfs.images._preprocessing import Preprocessing

__all__ = ["decode"]

FloatArray = np.ndarray[Any, np.dtype[np.float32]]


def decode(
    value: Any, preprocessing: Preprocessing, out: FloatArray | None = None, *, draft: bool = False
) -> FloatArray:
    """Decode one image into a network's input.

    The numbers are those of torchvision's ``Resize`` (antialiased), ``CenterCrop``, ``ToTensor`` and ``Normalize`` on
    the same RGB picture, padded with black where the resized image is smaller than the crop; with
    ``preprocessing.crop_start="floor"`` those of the image processors of ``transformers`` on Pillow's pictures.

    Parameters
    ----------
    value : bytes, bytearray, memoryview, str, os.PathLike, Mapping, np.ndarray or None
        * Bytes: an encoded JPEG, PNG, WEBP, GIF, BMP or TIFF file, the first frame of it.
        * Text: a local path, a ``file:`` URI, or a URI that `pyarrow.fs` reads (``s3://``, ``s3a://``, ``hdfs://``,
          ``gs://``, ...).
        * A mapping: Spark's ``image`` struct with grey, BGR or BGRA bytes.
        * A float array of shape ``preprocessing.shape``: an input already preprocessed, passed through as float32 and
          not normalised again; without `out` it is not copied if it needs no conversion.
    preprocessing : Preprocessing
        Steps from pixels to the tensor.
    out : np.ndarray, optional
        Array to write to, float32 of shape ``preprocessing.shape``, say a row of a batch. Untouched if an error is
        raised.
    draft : bool
        Decode a JPEG of more than ``preprocessing.max_pixels`` pixels at a half, a fourth or an eighth of its size, if
        that is within the limit and at least the size that it is resized to. Default ``False``: it is refused.

    Returns
    -------
    np.ndarray
        float32 of shape ``preprocessing.shape``, C-contiguous unless `out` is not; `out` itself if given.

    Raises
    ------
    ImageError
        The value is null, empty, truncated, corrupt, not an image, larger than ``preprocessing.max_pixels``
        (also after resizing, for extreme aspect ratios), a path without a file, or a tensor of the wrong dtype or shape
        or not finite.
    TypeError
        The value is of a type that never holds an image: the column is wrong, not the row.

    Notes
    -----
    Unlike torchvision's default loader: photographs are turned upright by their EXIF orientation, transparent pixels
    become white, and 16-bit grey is scaled to 8 bits instead of clipped. A file that ends early is an error, never a
    picture with a grey rest, also where a JPEG's end marker was put back: only what is missing of its last block, a few
    bytes, goes unnoticed.

    Depends on its arguments alone and may be called from several threads, provided that Pillow's global
    ``ImageFile.LOAD_TRUNCATED_IMAGES`` is left False.

    Examples
    --------
    >>> import io
    >>> from PIL import Image
    >>> from udfs.images import Preprocessing
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (500, 375), "white").save(file, "PNG")
    >>> tensor = decode(file.getvalue(), Preprocessing(crop=224, resize=256))
    >>> tensor.shape, tensor.dtype.name
    ((3, 224, 224), 'float32')
    >>> tensor[:, 0, 0].round(3).tolist()
    [2.249000072479248, 2.428999900817871, 2.640000104904175]
    """
    shape = preprocessing.shape
    if out is not None and (out.shape != shape or out.dtype != np.float32):
        raise ValueError(f"out must be float32 of shape {shape}, got {out.dtype} of shape {out.shape}")
    if isinstance(value, np.ndarray):
        tensor = _checked(value, shape)
        if out is None:
            return tensor
        out[...] = tensor
        return out
    resized = partial(_resized_size, preprocessing=preprocessing) if draft else None
    pixels = np.asarray(_resized(open_rgb(value, preprocessing.max_pixels, resized), preprocessing))
    if preprocessing.channels == "BGR":
        pixels = pixels[:, :, ::-1]
    scale, mean, std = _constants(preprocessing)
    if out is None:
        out = np.empty(shape, np.float32)
    # In place, one pass an operation: five times as fast as the expression, and bit for bit the same.
    out[...] = pixels.transpose(2, 0, 1) if preprocessing.layout == "NCHW" else pixels
    out *= scale
    out -= mean
    out /= std
    return out


def _resized_size(size: tuple[int, int], preprocessing: Preprocessing) -> tuple[int, int]:
    return picture_geometry(size, preprocessing).resized


def _resized(image: Image.Image, preprocessing: Preprocessing) -> Image.Image:
    geometry = picture_geometry((image.height, image.width), preprocessing)
    height, width = geometry.resized
    # However low the limit of photographs is, what most of them become is allowed.
    check_pixels(width, height, max(preprocessing.max_pixels, 16 * geometry.crop**2))
    # Resizing the cropped region alone would be faster, but Pillow holds such a region in single precision, and most
    # images come out different by a grey level.
    image = image.resize((width, height), Image.Resampling[preprocessing.resample.upper()])
    (top, left), crop = geometry.offset, geometry.crop
    if (height, width) == (crop, crop):
        return image
    # Beyond the edge of the picture Pillow's crop is black.
    return image.crop((left, top, left + crop, top + crop))


@lru_cache(maxsize=64)
def _constants(preprocessing: Preprocessing) -> tuple[np.float32, FloatArray, FloatArray]:
    along = (3, 1, 1) if preprocessing.layout == "NCHW" else (3,)
    mean = np.array(preprocessing.mean, np.float32).reshape(along)
    std = np.array(preprocessing.std, np.float32).reshape(along)
    return np.float32(preprocessing.scale), mean, std


def _checked(tensor: np.ndarray[Any, Any], shape: tuple[int, int, int]) -> FloatArray:
    if tensor.dtype.kind != "f":
        raise ImageError("tensor is not of a float type", str(tensor.dtype))
    if tensor.shape != shape:
        raise ImageError("tensor of the wrong shape", f"expected {shape}, got {tensor.shape}")
    with np.errstate(over="ignore"):
        result = np.ascontiguousarray(tensor, np.float32)
    if not np.isfinite(result).all():
        raise ImageError("tensor is not finite")
    return result
