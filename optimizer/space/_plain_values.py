"""Validation of the plain values of configurations, and of numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from optimizer.space._errors import SpaceError

__all__ = ["Value", "plain", "real", "same", "whole"]

Value = str | int | float | bool | None

# Larger integers are not exact for readers of the journal that convert every number to a double.
_LARGEST = 2**53


def plain(value: Any, field: str) -> Value:
    """Validate a string, number, boolean or ``None``, and convert scalars of numpy."""
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) is float and not math.isfinite(value):
        raise SpaceError(f"{field} must be finite, since it is written as JSON, got {value!r}")
    if value is not None and type(value) not in {str, int, float, bool}:
        raise SpaceError(
            f"{field} must be a string, number, boolean or None, got {value!r} of type {type(value).__name__}. Name "
            "the value, as in choice(['3x3', '5x5']), and look the name up in trainer_fn"
        )
    return value  # type: ignore[no-any-return]


def real(value: Any, field: str) -> float:
    """Validate a finite number, and convert it to a float."""
    value = plain(value, field)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SpaceError(f"{field} must be a number, got {value!r}")
    try:
        return float(value)
    except OverflowError as error:
        raise SpaceError(f"{field} must be within the range of floats, got a larger integer") from error


def whole(value: Any, field: str, *, least: int = -_LARGEST) -> int:
    """Validate an integer within the range that every reader of JSON keeps exact."""
    value = plain(value, field)
    if isinstance(value, bool) or not isinstance(value, int):
        raise SpaceError(f"{field} must be an integer, got {value!r}")
    if value < least:
        raise SpaceError(f"{field} must be at least {least}, got {value}")
    if value > _LARGEST:
        raise SpaceError(f"{field} must be at most 2**53, got {value}")
    return value


def same(left: Value, right: Value) -> bool:
    """Compare as JSON does: 1 equals 1.0, but not ``True``."""
    return isinstance(left, bool) == isinstance(right, bool) and left == right
