"""Superpixels: parts of an image of similar colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optimizer.errors import InvalidArgumentError
from udfs.attribution._scored_inputs import check_positive

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["superpixels"]


def superpixels(image: NDArray[np.uint8], count: int = 50) -> NDArray[np.int64]:
    """Divide an image into parts of similar colour (SLIC).

    Achanta et al., *SLIC superpixels compared to state-of-the-art superpixel methods*, PAMI 2012; scikit-image's.

    Parameters
    ----------
    image : array of uint8, of shape (height, width, 3)
        Image in RGB.
    count : int
        Approximate number of parts. Default 50.

    Returns
    -------
    array of int64, of shape (height, width)
        Number of each pixel's part, from 0 on.

    Raises
    ------
    InvalidArgumentError
        The image does not have three channels, the count is below 1, the compactness is not positive, or the whole
        image is one superpixel.
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
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise InvalidArgumentError(
            f"image must be uint8 of shape (height, width, 3), got {image.dtype} of shape {image.shape}"
        )
    try:
        from skimage.segmentation import slic
    except ImportError:
        raise ImportError('superpixels need scikit-image: pip install "cerebro-spark[explain]"') from None
    count = check_positive("count", count)
    labels = slic(image, count, start_label=0, channel_axis=2)
    numbers: NDArray[np.int64] = np.unique(labels, return_inverse=True)[1].reshape(labels.shape).astype(np.int64)
    if count > 1 and not numbers.any():
        raise InvalidArgumentError(
            "image must have more than one superpixel, got one for all of it; pass groups as an array"
        )
    return numbers
