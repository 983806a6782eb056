"""Confidence interval of a share."""

from __future__ import annotations

import math

__all__ = ["wilson_interval"]

_QUANTILE = 1.959963984540054  # 97.5 % of the normal distribution


def wilson_interval(hits: int, rows: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a share of hits among rows; 0 to 1 without rows.

    Wilson, *Probable inference, the law of succession, and statistical inference*, 1927.

    Examples
    --------
    >>> low, high = wilson_interval(90, 100)
    >>> round(low, 3), round(high, 3)
    (0.826, 0.945)
    """
    if not rows:
        return 0.0, 1.0
    share, squared = hits / rows, _QUANTILE**2
    centre = (share + squared / (2 * rows)) / (1 + squared / rows)
    half = _QUANTILE / (1 + squared / rows) * math.sqrt(share * (1 - share) / rows + squared / (4 * rows**2))
    return max(0.0, centre - half), min(1.0, centre + half)
