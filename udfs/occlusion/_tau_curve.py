"""SSIM as a function of projective field thresholding's tau, learned from a sample of images (Krypton, 6.4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

__all__ = ["TAUS", "Curve", "bisected", "fitted"]

TAUS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4)
"""Values of tau at which the paper measures SSIM."""

_DEGREE = 2
_STEPS = 61


@dataclass(frozen=True, slots=True)
class Curve:
    """SSIM as a polynomial of second degree in tau."""

    coefficients: tuple[float, ...]  # coefficients of the polynomial, the highest power first
    least: float = TAUS[-1]  # lowest tau that was measured, where the curve ends

    def at(self, tau: float) -> float:
        """Estimate the SSIM."""
        return float(np.clip(np.polyval(self.coefficients, tau), -1.0, 1.0))

    def lowest(self, target: float) -> float | None:
        """Find the lowest tau from which on the estimate reaches a target; ``None`` where no tau reaches it.

        Examples
        --------
        >>> Curve((0.0, 1.0, 0.0)).lowest(0.75)  # an SSIM as large as tau
        0.75
        """
        best = None
        for tau in np.linspace(1.0, self.least, _STEPS):
            if self.at(tau) < target - 1e-9:
                break
            best = round(float(tau), 4)
        return best


def fitted(measured: Sequence[Sequence[float]], taus: ArrayLike = TAUS) -> Curve:
    """Fit a curve by least squares.

    Parameters
    ----------
    measured : sequence of sequence of float
        SSIM at each tau, by image.
    taus : array of float
        Taus of all images, or of each. Default :data:`TAUS`.
    """
    at = np.broadcast_to(np.asarray(taus, np.float64), np.shape(measured))
    degree = min(_DEGREE, len(np.unique(at)) - 1)
    coefficients = np.polyfit(at.ravel(), np.ravel(measured), degree)
    return Curve(tuple(float(coefficient) for coefficient in coefficients), float(at.min()))


def bisected(
    likeness: Callable[[float], float], target: float, *, low: float, high: float, steps: int
) -> list[tuple[float, float]]:
    """Measure the likeness at some taus around the one where it falls below a target.

    Likeness falls as tau does, nearly always.

    Parameters
    ----------
    low, high : float
        Bounds, neither of which is measured.
    steps : int
        Number of taus to measure; the crossing is then known within ``(high - low) / 2**steps``.

    Returns
    -------
    list of pairs of float
        Taus with their likeness.

    Examples
    --------
    >>> bisected(lambda tau: tau, 0.8, low=0.0, high=1.0, steps=3)
    [(0.5, 0.5), (0.75, 0.75), (0.875, 0.875)]
    """
    measured = []
    for _ in range(steps):
        middle = (low + high) / 2
        measured.append((middle, likeness(middle)))
        low, high = (low, middle) if measured[-1][1] >= target else (middle, high)
    return measured
