"""Logarithmic scales in decimal arithmetic, so that all machines compute the same floats, unlike ``math.exp``."""

from __future__ import annotations

from decimal import Context, Decimal
from functools import lru_cache

__all__ = ["log_scaled"]

# Precision at which the result rounds to the same float as the exact value.
_EXACT = Context(prec=40)


def log_scaled(low: float, high: float, share: Decimal) -> float:
    """Return the value at a share of the distance from ``low`` to ``high`` on a logarithmic scale.

    Examples
    --------
    >>> log_scaled(1e-5, 1e-1, Decimal("0.25"))
    0.0001
    """
    way = _EXACT.exp(_EXACT.multiply(share, _distance(low, high)))
    return min(max(float(_EXACT.multiply(_decimal(low), way)), low), high)


@lru_cache(maxsize=1024)
def _distance(low: float, high: float) -> Decimal:
    return _EXACT.ln(_EXACT.divide(_decimal(high), _decimal(low)))


def _decimal(number: float) -> Decimal:
    # The decimal that the user wrote, 1e-5, and not its binary fraction.
    return Decimal(repr(number))
