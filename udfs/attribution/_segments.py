"""Superpixels: parts of an image of about one colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optimizer.errors import InvalidArgumentError
from udfs.attribution._scoring import positive

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["superpixels"]


def superpixels(image: NDArray[np.uint8], count: int = 50, compactness: float = 10.0) -> NDArray[np.int64]:
    """Divide an image into parts of about one colour (SLIC).

    Achanta et al., *SLIC superpixels compared to state-of-the-art superpixel methods*, PAMI 2012; scikit-image's.

    Parameters
    ----------
    image : array of uint8, of shape (height, width, 3)
        RGB.
    count : int
        About how many; there may be fewer. Default 50.
    compactness : float
        The larger, the squarer. Default 10.

    Returns
    -------
    array of int64, of shape (height, width)
        Number of each pixel's part, from 0 on.

    Raises
    ------
    InvalidArgumentError
        No image of three channels, a count below 1, a compactness that is not positive; or all of the image is one
        superpixel.
    ImportError
        scikit-image is not installed.

    Examples
    --------
    >>> halves = np.zeros((32, 32, 3), np.uint8)
    >>> halves[:, 16:] = 255
    >>> segments = superpixels(halves, 8)
    >>> set(segments[:, :16].ravel().tolist()) & set(segments[:, 16:].ravel().tolist())
    set()
    """
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:  # height, width, RGB
        raise InvalidArgumentError(f"an image of {image.dtype} and shape {image.shape}: uint8, (height, width, 3)")
    if not compactness > 0:
        raise InvalidArgumentError(f"compactness={compactness!r}: a positive number")
    try:
        from skimage.segmentation import slic  # an optional package
    except ImportError:
        raise ImportError('superpixels need scikit-image: pip install "cerebro-spark[explain]"') from None
    wanted = positive("count", count)
    labels = slic(image, wanted, compactness=compactness, start_label=0, channel_axis=2)
    numbers: NDArray[np.int64] = np.unique(labels, return_inverse=True)[1].reshape(labels.shape).astype(np.int64)
    if wanted > 1 and not numbers.any():
        raise InvalidArgumentError(
            "the image has no superpixels: all of it is one; give groups as an array, or a larger compactness"
        )
    return numbers
