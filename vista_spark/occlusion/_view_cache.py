"""Cache of the views of recently explained images, with a limit of bytes."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ViewCache"]


class ViewCache:
    """Least-recently-used cache of images with their views.

    The views of an image are the same for every patch, region and mode of one network and precision.

    Parameters
    ----------
    limit : int
        Limit in bytes; the last image is kept even if it exceeds the limit.

    Examples
    --------
    >>> import numpy as np
    >>> class Views:
    ...     nbytes = 60
    >>> cache, runs = ViewCache(100), []
    >>> for pixel in (0, 0, 1, 0):
    ...     pixels = np.full((3, 2, 2), pixel, np.float32)
    ...     views = cache.get(pixels, "float32", lambda pixels: runs.append(int(pixels.max())) or Views())
    >>> runs  # the first image was dropped for the second
    [0, 1, 0]
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._images: OrderedDict[tuple[str, str], Any] = OrderedDict()

    def get(self, pixels: NDArray[np.float32], precision: str, opened: Callable[[NDArray[np.float32]], Any]) -> Any:
        """Return an image with its views, which `opened` computes in a precision where they are not cached."""
        key = (hashlib.sha256(pixels.tobytes()).hexdigest(), precision)
        if key not in self._images:
            self._images[key] = opened(pixels)
        self._images.move_to_end(key)
        while len(self._images) > 1 and sum(image.nbytes for image in self._images.values()) > self._limit:
            self._images.popitem(last=False)
        return self._images[key]

    def clear(self) -> None:
        """Remove all images."""
        self._images.clear()
