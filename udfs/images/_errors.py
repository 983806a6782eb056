"""Error of a bad image."""

from __future__ import annotations

from udfs.arrow import RowError

__all__ = ["IMAGE_REASONS", "ImageError"]

IMAGE_REASONS = (
    "null",
    "empty file",
    "not a JPEG, PNG, WEBP, GIF, BMP or TIFF image",
    "AVIF cannot be decoded here",
    "HEIC cannot be decoded here",
    *(f"truncated or corrupt {kind} file" for kind in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "HEIC")),
    "too many pixels",
    "unsupported colour mode",
    "pixels are not finite",
    "pixels out of range",
    "no such file",
    "no permission to read the file",
    "no file system for the URI",
    "Spark could not decode the file",
    "unsupported mode of Spark's image struct",
    "wrong length of data",
    "no images",
    "no good image",
    "tensor is not of a float type",
    "tensor of the wrong shape",
    "tensor is not finite",
    "sparse vector",
    "features are not finite",
)
"""All reasons for which an image, or a tensor in its place, is bad. What varies (a path, a size) is the error's detail.

``"no images"`` and ``"no good image"`` are of records with a list of images; ``"features are not finite"`` is of what
the network makes of a good one.
"""


class ImageError(RowError):
    """An image that cannot be decoded; an error about this one value, never about the program or the machine."""
