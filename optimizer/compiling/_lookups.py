"""Operators that replace numbers: marks of missing values, and lookups of categories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.compiling._errors import ProgramError
from optimizer.compiling._operator import Operator, check_choice, width_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

import numpy as np

__all__ = ["CodeLookup", "Replace"]


@dataclass(frozen=True, eq=False, slots=True)
class Replace(Operator):
    """Replace the numbers between two bounds, the bounds included. NaN stays.

    Zero becomes a missing value, or numbers near zero become zero.

    Parameters
    ----------
    low, high : float64 arrays of shape (width,)
        Bounds of each column. A low bound above the high one leaves the column as it is.
    value : float64 array of shape (width,)
        Replacement of each column, NaN for a missing value.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    value: NDArray[np.float64]

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        if not len(self.low) == len(self.high) == len(self.value):
            raise ProgramError(
                f"low, high and value must have one length, got {len(self.low)}, {len(self.high)}, {len(self.value)}."
            )
        return width_of(self, inputs[0], len(self.value))


@dataclass(frozen=True, eq=False, slots=True)
class CodeLookup(Operator):
    """Look numbers up, by a table for each result: a key becomes its value, in the input's type.

    A set of categories is a table with the value 1 for each member: a split by categories compares the result with
    one half, so every strategy for trees takes it.

    Parameters
    ----------
    column : int64 array of shape (width,)
        Input column of each result.
    count : int64 array of shape (width,)
        Number of keys of each result.
    key : float64 array of shape (keys,)
        Keys of one result after the other.
    value : float64 array of shape (keys,)
        Value of each key.
    other : float64 array of shape (width,)
        Value for a number that is no key.
    missing : float64 array of shape (width,)
        Value for NaN.
    rounding : {"none", "down", "toward zero"}
        Rounding of a number before the lookup.

    Raises
    ------
    ProgramError
        Lengths differ, or a result has a key twice.

    Examples
    --------
    >>> CodeLookup.of_tables([0], [{1.0: 1.0, 4.0: 1.0}], [0.0], rounding="down").count.tolist()
    [2]
    """

    column: NDArray[np.int64]
    count: NDArray[np.int64]
    key: NDArray[np.float64]
    value: NDArray[np.float64]
    other: NDArray[np.float64]
    missing: NDArray[np.float64]
    rounding: str

    def __post_init__(self) -> None:
        check_choice("CodeLookup", "rounding", self.rounding, ("none", "down", "toward zero"))
        if not len(self.column) == len(self.count) == len(self.other) == len(self.missing):
            raise ProgramError(
                "column, count, other and missing must have one length, got "
                f"{len(self.column)}, {len(self.count)}, {len(self.other)} and {len(self.missing)}."
            )
        if not len(self.key) == len(self.value) == int(self.count.sum()):
            raise ProgramError(
                f"key and value must have {int(self.count.sum())} entries, got {len(self.key)} and {len(self.value)}."
            )

    @classmethod
    def of_tables(
        cls,
        column: Iterable[int],
        tables: Sequence[Mapping[float, float]],
        other: Iterable[float],
        *,
        missing: Iterable[float] | None = None,
        rounding: str = "none",
    ) -> CodeLookup:
        """Build from a mapping of keys to values for each result; NaN stays, but where `missing` says otherwise."""
        return cls(
            column=np.asarray(list(column), np.int64),
            count=np.asarray([len(table) for table in tables], np.int64),
            key=np.asarray([key for table in tables for key in table], np.float64),
            value=np.asarray([value for table in tables for value in table.values()], np.float64),
            other=np.asarray(list(other), np.float64),
            missing=np.full(len(tables), np.nan) if missing is None else np.asarray(list(missing), np.float64),
            rounding=rounding,
        )

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        if len(self.column) and not 0 <= int(self.column.min()) <= int(self.column.max()) < inputs[0]:
            raise ProgramError(f"CodeLookup looks at columns {sorted(set(self.column.tolist()))} of {inputs[0]}")
        return len(self.column)
