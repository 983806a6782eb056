"""Operators on categories: texts and numbers become codes, and codes become columns of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from optimizer.compiling._errors import ProgramError
from optimizer.compiling._operator import Operator, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

__all__ = ["Encode", "Entry", "Filled", "Known", "OneHot", "Recode"]

Entry = str | bytes | int | float | None
"""A value of a vocabulary. NaN and ``None`` are two values."""


@dataclass(frozen=True, eq=False, slots=True)
class Encode(Operator):
    """The place of each value in the vocabulary of its column; the vocabulary's length where it is not there. int64.

    The host does it before the tensor program runs, for tensors hold no texts. Values are equal as in Python: NFC is
    not NFD, and a longer text is another one. A null of SQL is ``None``, or NaN where the vocabulary has no ``None``.

    Parameters
    ----------
    columns : int64 array of shape (width,)
        Columns of the program's input.
    vocabularies : sequence of sequences of str, bytes, int, float or None
        One per column.

    Raises
    ------
    ProgramError
        There are not as many vocabularies as columns.
    """

    arity: ClassVar[int | None] = 0
    host: ClassVar[bool] = True

    columns: NDArray[np.int64]
    vocabularies: Sequence[Sequence[Entry]]

    def __post_init__(self) -> None:
        if len(self.columns) != len(self.vocabularies):
            raise ProgramError(
                f"vocabularies of Encode must be {len(self.columns)}, one per column, got {len(self.vocabularies)}."
            )

    def width(self, inputs: Sequence[int]) -> int:  # it reads columns, not tables
        """Return the number of columns of the result."""
        return len(self.columns)

    def explain(self) -> str:
        """Describe the operator in a few words."""
        sizes = ", ".join(
            f"column {column} in {len(vocabulary):,} values"
            for column, vocabulary in zip(self.columns.tolist(), self.vocabularies, strict=True)
        )
        return f"Encode({sizes})"


@dataclass(frozen=True, eq=False, slots=True)
class Recode(Operator):
    """A number, or a few, per code: row ``code`` of a column's table. The type is that of `values`.

    Parameters
    ----------
    values : array of shape (sum of sizes, width of each)
        Result of each code, column after column.
    sizes : int64 array of shape (columns,)
        Codes that each column has.
    """

    values: NDArray[Any]
    sizes: NDArray[np.int64]

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result: those of the first column's codes, then those of the second's."""
        _check_sum("Recode", len(self.values), self.sizes)
        return width_of(self, inputs[0], len(self.sizes)) * int(self.values.shape[1])


@dataclass(frozen=True, eq=False, slots=True)
class OneHot(Operator):
    """Encode codes as one-hot columns: 1 in the columns that the codes of a row name, else 0. A code of -1 names none.

    Parameters
    ----------
    sizes : int64 array of shape (inputs,)
        Columns of the result that each input has.
    dtype : {"float32", "float64"}
        Type of the result.
    """

    sizes: NDArray[np.int64]
    dtype: str = "float64"

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        width_of(self, inputs[0], len(self.sizes))
        return int(self.sizes.sum())


@dataclass(frozen=True, eq=False, slots=True)
class Known(Operator):
    """Row validation: a row with a code of `sizes` or above, an unknown category, is bad.

    Parameters
    ----------
    sizes : int64 array of shape (width,)
        Number of known categories of each column.
    who : str
        The model that the message names.
    """

    sizes: NDArray[np.int64]
    who: str

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        return width_of(self, inputs[0], len(self.sizes))


@dataclass(frozen=True, eq=False, slots=True)
class Filled(Operator):
    """Columns whose missing texts are replaced. It only tells the parser of the next step: no program may hold it.

    Parameters
    ----------
    marks : sequence of str, float or None
        Per column, the value that stands for a missing one.
    fills : sequence of str
        Per column, what takes its place.
    who : str
        The model that replaces them.
    nan : bool
        Whether NaN may pass, where it is not the mark.
    """

    marks: Sequence[Entry]
    fills: Sequence[Entry]
    who: str
    nan: bool

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        return width_of(self, inputs[0], len(self.marks))


def _check_sum(operator: str, values: int, sizes: NDArray[np.int64]) -> None:
    if values != int(np.sum(sizes)):
        raise ProgramError(f"values of {operator} must be as many as its columns have, {sizes.tolist()}, got {values}.")
