"""Plain values: what a configuration may hold, and what a number has to be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from optimizer.space._errors import SpaceError

__all__ = ["Value", "plain", "real", "same", "whole"]

Value = str | int | float | bool | None

# Larger integers are no longer exact where a reader of the journal takes every number for a double.
_LARGEST = 2**53


def plain(value: Any, field: str) -> Value:
    """Check that a value is a string, a number, a boolean or ``None``, and take numpy's wrapping off it."""
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) is float and not math.isfinite(value):
        raise SpaceError(f"{field}={value!r} is not finite: JSON, and so the journal, has no such number")
    if value is not None and type(value) not in {str, int, float, bool}:
        raise SpaceError(
            f"{field}={value!r} is a {type(value).__name__}: use strings, numbers, booleans or None, and let "
            "trainer_fn make objects of them"
        )
    return value  # type: ignore[no-any-return]


def real(value: Any, field: str) -> float:
    """Check that a value is a finite number, and make a float of it."""
    value = plain(value, field)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SpaceError(f"{field}={value!r}: give a number")
    try:
        return float(value)
    except OverflowError as error:
        raise SpaceError(f"{field} is an integer larger than any float: give a smaller one") from error


def whole(value: Any, field: str, *, least: int = -_LARGEST) -> int:
    """Check that a value is an integer, within the integers that every reader of JSON keeps exact."""
    value = plain(value, field)
    if isinstance(value, bool) or not isinstance(value, int):
        raise SpaceError(f"{field}={value!r}: give a whole number")
    if value < least:
        raise SpaceError(f"{field}={value}: give at least {least}")
    if value > _LARGEST:
        raise SpaceError(f"{field}={value}: give at most 2**53")
    return value


def same(one: Value, other: Value) -> bool:
    """Compare as JSON does: 1 equals 1.0, but not ``True``."""
    return isinstance(one, bool) == isinstance(other, bool) and one == other
