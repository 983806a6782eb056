"""Structural similarity of two heat maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["averages", "deviations", "similarity"]

# Side of the usual window; the largest odd one of a map that is smaller.
_WINDOW = 7

# SSIM's constants, as shares of the span of values.
_MEAN, _VARIANCE = 0.01, 0.03

# A heat map flatter than this shows nothing, and neither does its likeness.
_FLAT = 1e-6


def similarity(exact: NDArray[np.floating], other: NDArray[np.floating]) -> float:
    """Compute the SSIM of a heat map with the exact one, whose span of values is the data range (Krypton, 6.4.3).

    Windows lie within the map and are 7 places long, or as long as the shortest axis allows; statistics are those of a
    sample, as in scikit-image.

    Parameters
    ----------
    exact, other : array of float, of one shape
        At least 3 places along each axis.

    Returns
    -------
    float
        SSIM from -1 to 1; 1 for equal maps.

    Examples
    --------
    >>> ramp = np.outer(np.arange(9.0), np.ones(9))
    >>> similarity(ramp, ramp), similarity(ramp, ramp.T) < 0.5
    (1.0, True)
    """
    span = max(float(np.ptp(exact)), _FLAT)
    # Sums of squares lose the digits that a large mean takes.
    middle = float(np.mean(exact))
    first, second = exact.astype(np.float64) - middle, other.astype(np.float64) - middle
    side = _side(exact.shape)
    products = (first, second, first * first, second * second, first * second)
    means = [_means(values, side) for values in products]
    sample = side**exact.ndim / (side**exact.ndim - 1)
    variance, other_variance = (sample * (means[2 + at] - means[at] ** 2) for at in (0, 1))
    covariance = sample * (means[4] - means[0] * means[1])
    constants = (_MEAN * span) ** 2, (_VARIANCE * span) ** 2
    exact_mean, other_mean = means[0] + middle, means[1] + middle
    luminance = (2 * exact_mean * other_mean + constants[0]) / (exact_mean**2 + other_mean**2 + constants[0])
    structure = (2 * covariance + constants[1]) / (variance + other_variance + constants[1])
    return float(np.mean(luminance * structure))


def averages(values: NDArray[np.floating], side: int | None = None) -> NDArray[np.float64]:
    """Average the window around each place, SSIM's by default; at the border, the nearest window within the map."""
    side = min(side or _WINDOW, _side(values.shape))
    return np.pad(_means(values.astype(np.float64), side), side // 2, mode="edge")


def deviations(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Compute the standard deviation within the window around each place, as :func:`averages` does the mean."""
    centred = values.astype(np.float64) - float(np.mean(values))
    return np.sqrt(np.maximum(averages(centred * centred) - averages(centred) ** 2, 0.0))


def _side(shape: tuple[int, ...]) -> int:
    shortest = min(shape)
    return min(_WINDOW, shortest - 1 + shortest % 2)


def _means(values: NDArray[np.float64], side: int) -> NDArray[np.float64]:
    """Average each window that lies within the map."""
    for axis in range(values.ndim):
        values = sliding_window_view(values, side, axis).mean(axis=-1)
    return values
