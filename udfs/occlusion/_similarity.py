"""Structural similarity of two heat maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["similarity"]

# The usual window, and what is left of it where a map is smaller.
_WINDOW = 7

# A heat map flatter than this shows nothing, and neither does its likeness.
_FLAT = 1e-6


def similarity(exact: NDArray[np.floating], other: NDArray[np.floating]) -> float:
    """SSIM of a heat map with the exact one, whose span of values counts as the data's (Krypton, section 6.4.3).

    Parameters
    ----------
    exact, other : array of float, of shape (rows, columns)
        At least 3 x 3.

    Returns
    -------
    float
        From -1 to 1, which is for equal ones.

    Examples
    --------
    >>> ramp = np.outer(np.arange(9.0), np.ones(9))
    >>> similarity(ramp, ramp), similarity(ramp, ramp.T) < 0.5
    (1.0, True)
    """
    from skimage.metrics import structural_similarity  # noqa: PLC0415 - only who tunes or compares pays for it

    shortest = min(exact.shape)
    window = min(_WINDOW, shortest - 1 + shortest % 2)
    span = max(float(np.ptp(exact)), _FLAT)
    first, second = exact.astype(np.float64), other.astype(np.float64)
    index = structural_similarity(first, second, data_range=span, win_size=window)  # type: ignore[no-untyped-call]
    return float(index)
