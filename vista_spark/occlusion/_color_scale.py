"""Colour scales of heat maps: centred on the whole image's score, with limits that fit the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ColorScale", "fitting_scale", "krypton_scale"]

# Relative change that counts as rounding: exact and naive heat maps may differ by a tenth of it.
_FLAT = 1e-4

# Change, as a share of the score, that the end of the colours stands for at least: a heat map of small effects is pale.
_LEAST = 0.05

# Places beyond this percentile may exceed the limits: where the largest of them exceeds it by a quarter or more, and at
# most by this factor.
_PERCENTILE, _NEAR, _EXCESS = 99.0, 1.25, 4.0

Extend = Literal["neither", "min", "max", "both"]


@dataclass(frozen=True, slots=True)
class ColorScale:
    """Limits of a heat map's colours.

    ``centre`` is the score of the whole image. ``extend`` (``"neither"``, ``"min"``, ``"max"`` or ``"both"``) are the
    ends of the colour bar that have an arrow, for values beyond the limits. ``largest`` is the largest change of the
    score by a place; ``is_flat`` if none is beyond rounding.
    """

    low: float
    high: float
    centre: float
    extend: Extend
    largest: float
    is_flat: bool


def fitting_scale(values: NDArray[np.floating], centre: float) -> ColorScale:
    """Fit symmetric limits around the whole image's score to a heat map.

    They reach to the largest change, or where a few places change much more than all others, to the 99th percentile
    (and at least a quarter of the largest change). They reach to at least 5 % of the score, so that small effects are
    pale in proportion and noise is not shown as structure. Values are NaN where a place is not computed.

    Examples
    --------
    >>> scale = fitting_scale(np.array([0.5, 0.7, 0.8]), 0.75)
    >>> scale.low, scale.high, scale.extend
    (0.5, 1.0, 'neither')
    """
    known = _known(values)
    changes = np.abs(known - centre)
    largest = float(changes.max(initial=0.0))
    score = max(abs(centre), float(np.abs(known).max(initial=0.0)), float(np.finfo(np.float32).tiny) / _FLAT)
    is_flat = largest <= _FLAT * score
    half = _LEAST * score
    if not is_flat:
        usual = float(np.percentile(changes, _PERCENTILE))
        half = max(half, largest if largest <= _NEAR * usual else max(usual, largest / _EXCESS))
    low, high = centre - half, centre + half
    return ColorScale(low, high, centre, _extend(known, low, high), largest, is_flat)


def krypton_scale(values: NDArray[np.floating], centre: float) -> ColorScale:
    """Return the limits of Krypton's pictures: 0.75 and 1.25 times the probability, at most 1 (section 6.5).

    Values are NaN where a place is not computed.

    Examples
    --------
    >>> krypton_scale(np.array([0.5, 0.75]), 0.8).extend
    'min'
    """
    known = _known(values)
    low, high = 0.75 * centre, min(1.0, 1.25 * centre)
    largest = float(np.abs(known - centre).max(initial=0.0))
    return ColorScale(low, high, centre, _extend(known, low, high), largest, is_flat=False)


def _known(values: NDArray[np.floating]) -> NDArray[np.float64]:
    return np.asarray(values[np.isfinite(values)], np.float64)


def _extend(known: NDArray[np.float64], low: float, high: float) -> Extend:
    # Rounding of the limits themselves is not an excess.
    slack = 1e-6 * (high - low)
    below, above = bool((known < low - slack).any()), bool((known > high + slack).any())
    if below and above:
        return "both"
    return "min" if below else "max" if above else "neither"
