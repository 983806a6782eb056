"""Type converters for the Params of stages: a wrong value is refused when it is set."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pyspark.ml.param import Params, TypeConverters

from optimizer.arguments import choice_error
from optimizer.errors import InvalidArgumentError
from udfs.node import check_device

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["UNBOUND", "above", "at_least", "device_name", "one_of", "sizes"]

UNBOUND: Params = Params._dummy()  # noqa: SLF001 - the parent that Spark ML itself gives to a Param of a class


def one_of(name: str, allowed: Sequence[str]) -> Callable[[Any], str]:
    """Accept one of some strings."""

    def convert(value: Any) -> str:
        if value not in allowed:
            raise TypeError(choice_error(name, value, allowed))
        return str(value)

    return convert


def device_name(value: Any) -> str:
    """Accept the name of a device."""
    try:
        return check_device(value)
    except InvalidArgumentError as error:
        raise TypeError(str(error)) from None


def at_least(name: str, least: int) -> Callable[[Any], int]:
    """Accept a whole number from ``least`` on."""

    def convert(value: Any) -> int:
        number = TypeConverters.toInt(value)
        if number < least:
            raise TypeError(f"{name} must be at least {least}, got {value!r}.")
        return number

    return convert


def above(name: str, least: float, *, or_equal: bool = False) -> Callable[[Any], float]:
    """Accept a finite number above ``least``, or from it on."""

    def convert(value: Any) -> float:
        number = TypeConverters.toFloat(value)
        if not math.isfinite(number) or number < least or (number == least and not or_equal):
            bound = "of at least" if or_equal else "above"
            raise TypeError(f"{name} must be a number {bound} {least:g}, got {value!r}.")
        return number

    return convert


def sizes(name: str) -> Callable[[Any], list[int]]:
    """Accept a list of whole numbers from 1 on, an empty one included."""

    def convert(value: Any) -> list[int]:
        numbers = TypeConverters.toListInt(value)
        if any(number < 1 for number in numbers):
            raise TypeError(f"{name} must be a list of whole numbers of at least 1, got {value!r}.")
        return numbers

    return convert
