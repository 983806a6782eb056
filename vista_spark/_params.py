"""Type converters and shared Params of the stages: a wrong value is refused when it is set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, cast

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasInputCol

from optimizer.errors import nearest
from udfs.rows import ERROR_POLICIES, ErrorPolicy, RowPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["UNBOUND", "HasImageCol", "at_least", "layer_list", "one_of"]

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


def layer_list(value: Any) -> int | str | list[int | str]:
    """Accept what :meth:`vista_spark.roster.ModelCard.resolve` takes: a count, a name, or a list of both."""
    if isinstance(value, (int, str)) and not isinstance(value, bool):
        return value
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, (int, str)) for item in value):
        return list(value)
    raise TypeError(
        f"layers={value!r}: a number of layers from the top, a layer's name, or a list of names and numbers"
    )


class HasImageCol(HasInputCol):
    """The column of images, and what becomes of those that cannot be read."""

    errors: Param[str] = Param(
        UNBOUND,
        "errors",
        "what becomes of a bad image: " + " | ".join(ERROR_POLICIES),
        one_of("errors", ERROR_POLICIES),
    )
    errorCol: Param[str] = Param(UNBOUND, "errorCol", "column for the reason an image is bad", TypeConverters.toString)
    batchSize: Param[int] = Param(UNBOUND, "batchSize", "images handled at a time", at_least("batchSize", 1))

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(inputCol="image", errors="null", errorCol="image_error", batchSize=32)

    def setInputCol(self, value: str) -> Self:
        """Set the column of images."""
        return self._set(inputCol=value)

    def getErrors(self) -> str:
        """Policy for images that cannot be read."""
        return self.getOrDefault(self.errors)

    def setErrors(self, value: str) -> Self:
        """Set the policy for images that cannot be read."""
        return self._set(errors=value)

    def getErrorCol(self) -> str:
        """Column for the reason an image is bad."""
        return self.getOrDefault(self.errorCol)

    def setErrorCol(self, value: str) -> Self:
        """Set the column for the reason an image is bad."""
        return self._set(errorCol=value)

    def _policy(self) -> RowPolicy:
        return RowPolicy(cast("ErrorPolicy", self.getErrors()), self.getErrorCol())

    def getBatchSize(self) -> int:
        """Images handled at a time."""
        return self.getOrDefault(self.batchSize)

    def setBatchSize(self, value: int) -> Self:
        """Set the number of images handled at a time."""
        return self._set(batchSize=value)
