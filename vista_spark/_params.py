"""Params that several of the stages have."""

from __future__ import annotations

from typing import Any, Self

from pyspark.ml.param import Param, TypeConverters
from pyspark.ml.param.shared import HasInputCol

from udfs.params import UNBOUND, at_least, one_of
from udfs.rows import ERROR_POLICIES

__all__ = ["HasNetworkInput", "layer_list"]


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
