"""Numbers of a column, by the rules of the library that the model comes from."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from optimizer.errors import ColumnError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from optimizer.compiling import Reading

__all__ = ["NumberReader", "is_number", "read_numbers"]

# Beyond it float64 does not have every whole number, and the library may round another way.
_WHOLE = 2**53
_READ = frozenset({np.dtype(np.float32), np.dtype(np.float64)})
_REMEDY = "Convert the column to numbers as in training."
_FLOATS = (float, np.floating)
_NUMBERS: tuple[Any, ...] = (bool, int, float, np.bool_, np.integer, np.floating, Decimal, Fraction)
# NumPy converts them to ticks of a unit that the number does not tell.
_TICKS: tuple[Any, ...] = (np.datetime64, np.timedelta64)
_UNHASHABLE = frozenset({bytearray, dict, list, np.ndarray, set})
# Equal to numbers, or to nothing: the library treats them differently from step to step.
_UNCLEAR = frozenset({"NAType", "NaTType"})


class NumberReader:
    """Reader of one column of numbers.

    Parameters
    ----------
    name : str
        Name of the column in messages, such as ``"column 'income'"``.
    reading : Reading
        Rule of the column.
    """

    def __init__(self, name: str, reading: Reading) -> None:
        self._name, self._reading = name, reading

    def read(self, column: NDArray[Any] | pa.Array) -> NDArray[Any]:
        """Convert a column to float32 or float64.

        Raises
        ------
        ColumnError
            The column, or a value of it, is not what the library takes for numbers.
        """
        if isinstance(column, pa.Array):
            if self._reading.by_value is not None or not _is_text(column.type):
                return self._of_arrow(column)
            column = column.to_numpy(zero_copy_only=False)
        kind = column.dtype.kind
        if kind in "biuf":
            return read_numbers(column, self._name)
        if kind not in "OSU":
            raise ColumnError(f"{self._name} must hold numbers, got {column.dtype}. {_REMEDY}")
        if self._reading.by_value is not None:
            return self._compared(column.tolist() if kind == "O" else list(column))
        if kind == "O" and any(issubclass(known, _TICKS) for known in set(map(type, column.tolist()))):
            raise ColumnError(f"{self._name} must hold numbers, got {_first(column, _TICKS)!r}. {_REMEDY}")
        try:
            return column.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ColumnError(f"{self._name} must hold numbers, got {_no_number(column)}. {_REMEDY}") from error

    def _of_arrow(self, column: pa.Array) -> NDArray[Any]:
        kind = column.type
        if not (is_number(kind) or pa.types.is_null(kind)):
            raise ColumnError(f"{self._name} must hold numbers, got {kind}. {_REMEDY}")
        try:
            numbers = column if kind == pa.float32() else pc.cast(column, pa.float64())
        except pa.ArrowInvalid as error:
            raise _beyond(self._name) from error
        return np.asarray(numbers.to_numpy(zero_copy_only=False))

    def _compared(self, values: Sequence[Any]) -> NDArray[np.float64]:
        """Convert values that an encoder or an imputer compares as they are."""
        unknown = self._reading.unknown
        refused = {kind for kind in set(map(type, values)) if not _is_read(kind, compared=unknown is not None)}
        if refused:
            value = next(value for value in values if type(value) in refused)
            raise ColumnError(
                f"{self._name} must hold numbers or NaN for {self._reading.by_value}, which compares values as they "
                f"are, got {value!r}. {_REMEDY}"
            )
        if unknown is None:
            return np.array([float(value) for value in values], np.float64)
        return np.array([_number_or(value, unknown) for value in values], np.float64)


def read_numbers(values: NDArray[Any], name: str = "X") -> NDArray[Any]:
    """Convert numbers to float64; keep float32.

    Parameters
    ----------
    values : array
        Booleans, whole numbers or floats.
    name : str
        Name of the array in messages. Default ``"X"``.

    Raises
    ------
    InvalidArgumentError
        An integer is beyond 2^53 in magnitude.
    """
    if values.dtype.kind in "iu" and values.size and max(abs(int(values.min())), abs(int(values.max()))) > _WHOLE:
        raise _beyond(name)
    return values if values.dtype in _READ else values.astype(np.float64)


def _beyond(name: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{name} must hold integers up to {_WHOLE}, which float64 has, got more. Pass floats.")


def _is_text(kind: pa.DataType) -> bool:
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return bool(text or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def is_number(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is one of numbers or booleans."""
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return bool(numeric or pa.types.is_boolean(kind))


def _is_read(kind: type, *, compared: bool) -> bool:
    """Return whether values of a type are read: numbers, and for an encoder what it can tell from them."""
    if issubclass(kind, _NUMBERS) and not issubclass(kind, _TICKS):
        return True
    is_unclear = issubclass(kind, complex | np.complexfloating) or kind.__name__ in _UNCLEAR
    return compared and not is_unclear and kind not in _UNHASHABLE


def _number_or(value: Any, unknown: float) -> float:
    """Return the float that a value equals, NaN for NaN, and the unknown number for what equals no finite float."""
    if isinstance(value, _TICKS) or not isinstance(value, _NUMBERS):
        return unknown
    if value != value:
        return float("nan") if isinstance(value, _FLOATS) else unknown
    number = float(value)
    return number if number == value and abs(number) != float("inf") else unknown


def _first(column: NDArray[Any], kinds: tuple[type, ...]) -> Any:
    return next(value for value in column.tolist() if isinstance(value, kinds))


def _no_number(column: NDArray[Any]) -> str:
    """Describe the first value that is no number."""
    for value in column.tolist():
        try:
            np.array([value], column.dtype).astype(np.float64)
        except (TypeError, ValueError):
            return f"{value!r}"
    return str(column.dtype)
