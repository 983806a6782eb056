"""Histograms of oriented gradients: the hand-made image features that CNN features are measured against."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image

from udfs.images._pillow import MAX_PIXELS
from udfs.images._rgb import open_rgb

__all__ = ["hog", "hog_length"]


def hog(
    value: Any,
    size: int = 128,
    *,
    orientations: int = 9,
    pixels_per_cell: int = 8,
    cells_per_block: int = 2,
    max_pixels: int = MAX_PIXELS,
) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Describe one image by its histogram of oriented gradients (Dalal and Triggs 2005), as Vista's section 5.2 does.

    The picture is resized to ``size x size``, the aspect ratio lost; at each pixel the colour channel with the largest
    gradient votes; blocks are normalised by L2-Hys. The half circle has ``orientations`` bins; a cell has sides of
    ``pixels_per_cell`` pixels, a block of ``cells_per_block`` cells. The values are within 0 and 1. Raise ImageError
    for a bad image, such as one larger than ``max_pixels``, and ValueError if no block fits into the picture.

    Examples
    --------
    >>> import io
    >>> from PIL import Image
    >>> file = io.BytesIO()
    >>> Image.linear_gradient("L").save(file, "PNG")
    >>> hog(file.getvalue()).shape
    (8100,)
    """
    hog_length(size, orientations=orientations, pixels_per_cell=pixels_per_cell, cells_per_block=cells_per_block)
    try:
        from skimage.feature import hog as describe  # an optional extra
    except ImportError as error:
        raise ImportError('HOG features need scikit-image: pip install "cerebro-spark[demo]"') from error
    picture = open_rgb(value, max_pixels).resize((size, size), Image.Resampling.BILINEAR)
    features = describe(
        np.asarray(picture),
        orientations=orientations,
        pixels_per_cell=(pixels_per_cell, pixels_per_cell),
        cells_per_block=(cells_per_block, cells_per_block),
        block_norm="L2-Hys",
        channel_axis=-1,
    )
    return np.asarray(features, np.float32)


def hog_length(size: int = 128, *, orientations: int = 9, pixels_per_cell: int = 8, cells_per_block: int = 2) -> int:
    """Return the length of the vector that `hog` returns for the same parameters, known without an image.

    Raise ValueError if a parameter is below 1, or no block fits into the picture.

    Examples
    --------
    >>> hog_length(128)
    8100
    """
    if min(orientations, pixels_per_cell, cells_per_block) < 1:
        raise ValueError("orientations, pixels_per_cell and cells_per_block must be at least 1")
    blocks = size // pixels_per_cell - cells_per_block + 1
    if blocks < 1:
        block = cells_per_block * pixels_per_cell
        raise ValueError(f"size must be at least {block} (a block is {block} pixels wide), got {size}")
    return blocks**2 * cells_per_block**2 * orientations
