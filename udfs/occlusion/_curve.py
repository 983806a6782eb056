"""SSIM as a function of projective field thresholding's tau, learned from a sample of images (Krypton, 6.4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["TAUS", "Curve", "fitted"]

TAUS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4)
"""Values of tau at which SSIM is measured; the chosen tau lies between."""

_DEGREE = 2
_STEPS = 61


@dataclass(frozen=True, slots=True)
class Curve:
    """SSIM as a polynomial of second degree in tau.

    Parameters
    ----------
    coefficients : tuple of float
        The highest power first.
    """

    coefficients: tuple[float, ...]

    def at(self, tau: float) -> float:
        """Estimate the SSIM."""
        return float(np.clip(np.polyval(self.coefficients, tau), -1.0, 1.0))

    def lowest(self, target: float) -> float | None:
        """Find the lowest tau from which on the estimate reaches a target; ``None`` where the largest does not.

        Examples
        --------
        >>> Curve((0.0, 1.0, 0.0)).lowest(0.75)  # an SSIM as large as tau
        0.75
        """
        best = None
        for tau in np.linspace(TAUS[0], TAUS[-1], _STEPS):
            if self.at(tau) < target - 1e-9:
                break
            best = round(float(tau), 4)
        return best


def fitted(measured: Sequence[Sequence[float]]) -> Curve:
    """Fit a curve by least squares.

    Parameters
    ----------
    measured : sequence of sequence of float
        By image: SSIM at each of :data:`TAUS`.
    """
    taus = np.tile(TAUS, len(measured))
    return Curve(tuple(float(one) for one in np.polyfit(taus, np.ravel(measured), _DEGREE)))
