"""Operators that give numbers another meaning: marks of what is missing, and codes of categories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._errors import ProgramError
from ._operator import Operator, check_choice, width_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

import numpy as np

__all__ = ["CodeLookup", "Replace"]


@dataclass(frozen=True, eq=False, slots=True)
class Replace(Operator):
    """Another number for those between two bounds, the bounds included; NaN stays.

    So zero becomes a missing value, or what is all but zero becomes zero.

    Parameters
    ----------
    low, high : float64 arrays of shape (width,)
        Per column; a low bound above the high one leaves the column as it is.
    value : float64 array of shape (width,)
        Per column, what takes the place. NaN for "missing".
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    value: NDArray[np.float64]

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        if not len(self.low) == len(self.high) == len(self.value):
            raise ProgramError(f"Replace: {len(self.low)} and {len(self.high)} bounds, {len(self.value)} values")
        return width_of(self, inputs[0], len(self.value))


@dataclass(frozen=True, eq=False, slots=True)
class CodeLookup(Operator):
    """Columns of numbers, each by a table: one that is a key becomes its value. In the input's type.

    A set of categories is a table with the value 1 for each member: a split by categories compares the result with
    one half, so every strategy for trees takes it.

    Parameters
    ----------
    column : int64 array of shape (width,)
        Column that each result looks at.
    count : int64 array of shape (width,)
        Keys of each result.
    key : float64 array of shape (keys,)
        Of one result after the other.
    value : float64 array of shape (keys,)
    other : float64 array of shape (width,)
        For a number that is no key.
    missing : float64 array of shape (width,)
        For NaN.
    rounding : {"none", "down", "toward zero"}
        What is done to a number before it is looked up.

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
                f"CodeLookup: {len(self.column)} columns, {len(self.count)} counts, {len(self.other)} others, "
                f"{len(self.missing)} for NaN"
            )
        if not len(self.key) == len(self.value) == int(self.count.sum()):
            raise ProgramError(
                f"CodeLookup: {len(self.key)} keys, {len(self.value)} values, and the counts say otherwise"
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
        """Columns of the result."""
        if len(self.column) and not 0 <= int(self.column.min()) <= int(self.column.max()) < inputs[0]:
            raise ProgramError(f"CodeLookup looks at columns {sorted(set(self.column.tolist()))} of {inputs[0]}")
        return len(self.column)
