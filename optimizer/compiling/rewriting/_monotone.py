"""Operators that keep, or turn, the order of the numbers in a column, computed here as they are when they run.

Only operations that IEEE 754 rounds in one way are among them: sums, products, quotients, casts. A logarithm is not:
its last bit differs between libraries, and so has no exact threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling._arithmetic import Arithmetic, Cast, Clip
from optimizer.compiling._codes import Replace
from optimizer.compiling._curves import Ufunc
from optimizer.compiling._functions import Function

from ._floats import greatest, least

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from optimizer.compiling._operator import Operator

__all__ = ["FLOATS", "Monotone", "monotone"]

FLOATS = frozenset({"float32", "float64"})
_OPERATIONS: dict[str, Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
}
_STEPPED: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "ceil": np.ceil,
    "floor": np.floor,
    "negative": np.negative,
    "positive": np.positive,
    "rint": np.rint,
    "round": np.rint,
    "trunc": np.trunc,
}


@dataclass(frozen=True, slots=True)
class Monotone:
    """An operator on some columns.

    Parameters
    ----------
    compute : callable
        From a number per column to the operator's result, in its type. Gives NaN for NaN alone.
    valid : bool array of shape (columns,)
        Whether it is monotone there.
    rising : bool array of shape (columns,)
        Else it falls.
    dtype : str
        Of the input.
    """

    compute: Callable[[NDArray[Any]], NDArray[Any]]
    valid: NDArray[np.bool_]
    rising: NDArray[np.bool_]
    dtype: str

    def range_of(self, low: NDArray[Any], high: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Give the least and the greatest result for inputs between bounds, the bounds included."""
        with np.errstate(all="ignore"):
            ends = [self.compute(end.astype(self.dtype)).astype(np.float64) for end in (low, high)]
        return np.where(self.rising, ends[0], ends[1]), np.where(self.rising, ends[1], ends[0])

    def back(
        self, low: NDArray[np.float64], high: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Give the least and the greatest input whose result is between bounds; NaN where there is none."""

        def up(x: NDArray[Any]) -> NDArray[np.float64]:
            with np.errstate(all="ignore"):
                y = self.compute(x).astype(np.float64)
            return np.where(self.rising, y, -y)

        bottom, top = np.where(self.rising, low, -high), np.where(self.rising, high, -low)
        count = len(self.valid)
        first = least(lambda x: up(x) >= bottom, count, self.dtype)
        last = greatest(lambda x: up(x) <= top, count, self.dtype)
        return first.astype(np.float64), last.astype(np.float64)


def monotone(operator: Operator, columns: NDArray[np.int64], dtype: str | None) -> Monotone | None:
    """Give an operator as a monotone function of some of its columns; ``None`` if it is none.

    Parameters
    ----------
    operator : Operator
    columns : int64 array
        May have one twice.
    dtype : str or None
        Of the operator's input.
    """
    if dtype not in FLOATS:
        return None
    if isinstance(operator, Arithmetic):
        return _arithmetic(operator, columns, dtype)
    if isinstance(operator, Replace):
        return _replace(operator, columns, dtype)
    every = np.ones(len(columns), np.bool_)
    compute = _compute_of(operator, dtype)
    if compute is None:
        return None
    falls = isinstance(operator, Ufunc | Function) and _name(operator) == "negative"
    return Monotone(compute, every, every ^ falls, dtype)


def _compute_of(operator: Operator, dtype: str) -> Callable[[NDArray[Any]], NDArray[Any]] | None:
    if isinstance(operator, Cast) and operator.dtype in FLOATS:
        kind = operator.dtype
        return lambda x: x.astype(kind)
    if isinstance(operator, Clip):
        low, high = (np.asarray(bound, dtype) for bound in (operator.low, operator.high))
        exact = low == operator.low and high == operator.high and low <= high
        return (lambda x: np.clip(x, low, high)) if exact else None
    return _STEPPED.get(_name(operator)) if isinstance(operator, Ufunc | Function) else None


def _name(operator: Ufunc | Function) -> str:
    return operator.name if isinstance(operator, Ufunc) else operator.kind


def _replace(operator: Replace, columns: NDArray[np.int64], dtype: str) -> Monotone:
    """Rising, if what takes the place of the numbers between two bounds lies between them itself."""
    low, high = operator.low[columns], operator.high[columns]
    with np.errstate(over="ignore"):
        value = operator.value[columns].astype(dtype)
    # Bounds are compared in float64.
    valid = (low > high) | ((value >= low) & (value <= high))
    return Monotone(
        lambda x: np.where((x >= low) & (x <= high), value, x), valid, np.ones(len(columns), np.bool_), dtype
    )


def _arithmetic(operator: Arithmetic, columns: NDArray[np.int64], dtype: str) -> Monotone | None:
    if operator.operand.dtype.name not in FLOATS:
        return None
    with np.errstate(over="ignore"):
        operand = operator.operand[columns].astype(dtype if operator.rounded else operator.operand.dtype)
    operation = _OPERATIONS[operator.kind]
    scales = operator.kind in {"multiply", "divide"}
    valid = np.isfinite(operand) & (operand != 0) if scales else np.isfinite(operand)
    rising = operand > 0 if scales else np.ones(len(operand), np.bool_)
    return Monotone(lambda x: operation(x, operand).astype(dtype), valid, rising, dtype)
