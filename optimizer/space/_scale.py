"""Logarithmic scales in decimal arithmetic: all machines get the same floats, which ``math.exp`` does not promise."""

from __future__ import annotations

from decimal import Context, Decimal
from functools import lru_cache

__all__ = ["log_scaled"]

# Enough that the nearest float to the result is the nearest to the exact one.
_EXACT = Context(prec=40)


def log_scaled(low: float, high: float, share: Decimal) -> float:
    """Find the value at a share of the way from ``low`` to ``high`` on a logarithmic scale.

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
    # As the user wrote it: 1e-5, not the binary fraction beside it.
    return Decimal(repr(number))
