"""Type converters and shared Params of the stages: a wrong value is refused when it is set."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasInputCol

from optimizer.errors import nearest
from udfs.rows import ERROR_POLICIES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["UNBOUND", "HasNetworkInput", "above", "at_least", "layer_list", "one_of", "sizes"]

UNBOUND: Params = Params._dummy()  # noqa: SLF001 - the parent that Spark ML itself gives to a Param of a class


def one_of(name: str, allowed: Sequence[str]) -> Callable[[Any], str]:
    """Accept one of some strings."""

    def convert(value: Any) -> str:
        if value not in allowed:
            raise TypeError(f"{name}={value!r}{nearest(str(value), allowed)}; one of: {', '.join(allowed)}")
        return str(value)

    return convert


def at_least(name: str, least: int) -> Callable[[Any], int]:
    """Accept a whole number from ``least`` on."""

    def convert(value: Any) -> int:
        number = TypeConverters.toInt(value)
        if number < least:
            raise TypeError(f"{name}={value!r}: at least {least}")
        return number

    return convert


def above(name: str, least: float, *, or_equal: bool = False) -> Callable[[Any], float]:
    """Accept a finite number above ``least``, or from it on."""

    def convert(value: Any) -> float:
        number = TypeConverters.toFloat(value)
        if not math.isfinite(number) or number < least or (number == least and not or_equal):
            raise TypeError(f"{name}={value!r}: a number {'from' if or_equal else 'above'} {least:g}{' on' * or_equal}")
        return number

    return convert


def sizes(name: str) -> Callable[[Any], list[int]]:
    """Accept a list of whole numbers from 1 on, an empty one included."""

    def convert(value: Any) -> list[int]:
        numbers = TypeConverters.toListInt(value)
        if any(number < 1 for number in numbers):
            raise TypeError(f"{name}={value!r}: each at least 1")
        return numbers

    return convert


def layer_list(value: Any) -> int | str | list[int | str]:
    """Accept what :meth:`vista_spark.roster.ModelCard.resolve` takes: a count, a name, or a list of both."""
    if isinstance(value, (int, str)) and not isinstance(value, bool):
        return value
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, (int, str)) for item in value):
        return list(value)
    raise TypeError(
        f"layers={value!r}: a number of layers from the top, a layer's name, or a list of names and numbers"
    )


class HasNetworkInput(HasInputCol):
    """The column that a network reads, and what becomes of values that it cannot."""

    errors: Param[str] = Param(
        UNBOUND,
        "errors",
        "what becomes of a bad value: " + " | ".join(ERROR_POLICIES),
        one_of("errors", ERROR_POLICIES),
    )
    errorCol: Param[str] = Param(UNBOUND, "errorCol", "column for the reason a value is bad", TypeConverters.toString)
    batchSize: Param[int] = Param(UNBOUND, "batchSize", "records handled at a time", at_least("batchSize", 1))

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(errors="null", batchSize=32)

    def setInputCol(self, value: str) -> Self:
        """Set the column that the network reads."""
        return self._set(inputCol=value)

    def getErrors(self) -> str:
        """Policy for values that cannot be read."""
        return self.getOrDefault(self.errors)

    def setErrors(self, value: str) -> Self:
        """Set the policy for values that cannot be read."""
        return self._set(errors=value)

    def getErrorCol(self) -> str:
        """Column for the reason a value is bad."""
        return self.getOrDefault(self.errorCol)

    def setErrorCol(self, value: str) -> Self:
        """Set the column for the reason a value is bad."""
        return self._set(errorCol=value)

    def getBatchSize(self) -> int:
        """Records handled at a time."""
        return self.getOrDefault(self.batchSize)

    def setBatchSize(self, value: int) -> Self:
        """Set the number of records handled at a time."""
        return self._set(batchSize=value)
