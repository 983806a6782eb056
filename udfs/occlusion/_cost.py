"""Estimate of a heat map's duration: a line through the times of some places (Krypton, section 7.1.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CostModel"]


@dataclass(frozen=True, slots=True)
class CostModel:
    """Seconds by the number of places, for one network, patch and mode.

    Parameters
    ----------
    fixed : float
        Seconds whatever the number.
    place : float
        Seconds per place.
    """

    fixed: float
    place: float

    @classmethod
    def fit(cls, measured: Sequence[tuple[int, float]]) -> CostModel:
        """Fit the least-squares line through places and seconds; neither part is negative.

        Parameters
        ----------
        measured : sequence of pairs of int and float

        Examples
        --------
        >>> CostModel.fit([(10, 1.5), (30, 3.5), (50, 5.5)]).seconds(100)
        10.5
        """
        places, seconds = (np.array(column, np.float64) for column in zip(*measured, strict=True))
        slope, start = np.polyfit(places, seconds, 1)
        if slope <= 0 or start < 0:  # what was measured is noisier than it is long
            return cls(0.0, float(seconds.sum() / places.sum()))
        return cls(float(start), float(slope))

    def seconds(self, places: int) -> float:
        """Estimate the seconds that so many places take."""
        return round(self.fixed + self.place * places, 6)
