"""The error of a bad image."""

from __future__ import annotations

from udfs.arrow import RowError

__all__ = ["ImageError"]


class ImageError(RowError):
    """An image that cannot be decoded; an error about this one value, never about the program or the machine.

    Parameters
    ----------
    reason, detail : str
        As for :class:`udfs.arrow.RowError`.

    Examples
    --------
    >>> error = ImageError("no such file", "/data/cat.jpg")
    >>> print(error)
    no such file: /data/cat.jpg
    >>> error.reason
    'no such file'
    """
