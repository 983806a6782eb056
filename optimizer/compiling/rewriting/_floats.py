"""The floats in their order, and bisection over them: an exact end of what a rounded function lets pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

__all__ = ["greatest", "least"]

_WHOLE: Mapping[str, type[np.int32 | np.int64]] = {"float32": np.int32, "float64": np.int64}
_STEPS = 66  # a few more than the bits of float64


def greatest(accepts: Callable[[NDArray[Any]], NDArray[np.bool_]], count: int, dtype: str) -> NDArray[Any]:
    """Find the greatest float that is accepted, at each of some places; NaN where minus infinity is not.

    Parameters
    ----------
    accepts : callable
        From floats of shape (count,) to whether each is accepted at its place. What is below an accepted one is
        accepted too.
    count : int
    dtype : {"float32", "float64"}
    """
    low = np.full(count, _ordinal(-np.inf, dtype), np.int64)
    high = np.full(count, _ordinal(np.inf, dtype), np.int64)
    some = accepts(_floats(low, dtype))
    for _ in range(_STEPS):
        # The mean, rounded up: their sum may be beyond int64.
        middle = (low | high) - ((low ^ high) >> 1)
        yes = accepts(_floats(middle, dtype))
        low, high = np.where(yes, middle, low), np.where(yes, high, np.maximum(middle - 1, low))
    return np.where(some, _floats(low, dtype), np.nan).astype(dtype)


def least(accepts: Callable[[NDArray[Any]], NDArray[np.bool_]], count: int, dtype: str) -> NDArray[Any]:
    """Find the least float that is accepted, where what is above an accepted one is accepted too."""
    return -greatest(lambda x: accepts(-x), count, dtype)


def _ordinal(value: float, dtype: str) -> int:
    whole = _WHOLE[dtype]
    bits = int(np.array(value, dtype).view(whole))
    return bits if bits >= 0 else -(bits & int(np.iinfo(whole).max))


def _floats(ordinals: NDArray[np.int64], dtype: str) -> NDArray[Any]:
    # Magnitudes of floats have the order of their bits.
    whole = _WHOLE[dtype]
    magnitudes = np.abs(ordinals).astype(whole).view(dtype)
    return np.where(ordinals < 0, -magnitudes, magnitudes)
