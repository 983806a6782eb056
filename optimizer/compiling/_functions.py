"""Operators that compute functions of numbers, of rows and of two tables: what the models of a library share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ._errors import ProgramError
from ._operator import Operator, check_choice, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "After",
    "Combine",
    "Function",
    "Like",
    "LogSoftmax",
    "OrderedSum",
    "Power",
    "Reduce",
    "Reject",
    "Shares",
    "Within",
]

_FUNCTIONS = (
    *("abs", "erf", "exp", "log", "negative", "nonzero", "relu", "sin", "sqrt", "square", "tanh"),
    *("ceil", "expm1", "floor", "is_nan", "log1p", "not", "reciprocal", "round", "sign"),
)
_COMBINATIONS = (
    *("add", "subtract", "multiply", "divide", "maximum", "minimum"),
    *("and", "equal", "greater", "greater_equal", "less", "less_equal", "or", "power"),
)
_REDUCTIONS = ("sum", "mean", "max", "min", "logsumexp", "product", "sum_square")


@dataclass(frozen=True, eq=False, slots=True)
class Function(Operator):
    """A function of each number, in the input's type. ``"nonzero"`` gives the least normal number for zero.

    Parameters
    ----------
    kind : {"abs", "erf", "exp", "log", "negative", "nonzero", "relu", "sin", "sqrt", "square", "tanh", ...}
        Also ``"ceil"``, ``"expm1"``, ``"floor"``, ``"log1p"``, ``"reciprocal"``, ``"round"`` (halves to the even
        number), ``"sign"``; ``"is_nan"`` and ``"not"`` give 0 and 1.
    """

    kind: str

    def __post_init__(self) -> None:
        check_choice("Function", "kind", self.kind, _FUNCTIONS)


@dataclass(frozen=True, eq=False, slots=True)
class Power(Operator):
    """Each number to a power, in the input's type.

    Parameters
    ----------
    exponent : float
    """

    exponent: float


@dataclass(frozen=True, eq=False, slots=True)
class Combine(Operator):
    """One operation with two tables, number by number, in the wider type; one of them may have a single column.

    Parameters
    ----------
    kind : {"add", "subtract", "multiply", "divide", "maximum", "minimum", "power", ...}
        Also ``"and"``, ``"or"`` and the comparisons ``"equal"``, ``"greater"``, ``"greater_equal"``, ``"less"`` and
        ``"less_equal"``, which give 0 and 1.
    """

    arity: ClassVar[int | None] = 2
    kind: str

    def __post_init__(self) -> None:
        check_choice("Combine", "kind", self.kind, _COMBINATIONS)

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        if 1 not in inputs and inputs[0] != inputs[1]:
            raise ProgramError(f"Combine of {inputs[0]} and {inputs[1]} columns")
        return max(inputs)


@dataclass(frozen=True, eq=False, slots=True)
class Like(Operator):
    """The first table in the type of the second, as when a library writes into an array of its input's type."""

    arity: ClassVar[int | None] = 2


@dataclass(frozen=True, eq=False, slots=True)
class Reduce(Operator):
    """One number of each group of neighbouring columns.

    Parameters
    ----------
    kind : {"sum", "mean", "max", "min", "logsumexp", "product", "sum_square"}
    groups : int
        Columns of the result: the groups are equally wide.
    """

    kind: str
    groups: int = 1

    def __post_init__(self) -> None:
        check_choice("Reduce", "kind", self.kind, _REDUCTIONS)

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        if self.groups < 1 or not inputs[0] or inputs[0] % self.groups:
            raise ProgramError(f"Reduce: {inputs[0]} columns in {self.groups} groups")
        return self.groups


@dataclass(frozen=True, eq=False, slots=True)
class LogSoftmax(Operator):
    """Logarithms of the probabilities that :class:`Softmax` gives, without a loss at small ones."""


@dataclass(frozen=True, eq=False, slots=True)
class Shares(Operator):
    """Each row over its sum.

    Parameters
    ----------
    equal : bool
        Whether a row whose sum is zero becomes equal shares; else it stays.
    """

    equal: bool


@dataclass(frozen=True, eq=False, slots=True)
class OrderedSum(Operator):
    """Sums of some columns, weighed: each product is rounded, and added to those before it; a bias comes last.

    A matrix product adds in another order, and does not round in between. A score that is zero in the library, because
    two terms cancel, is then above or below zero, and the row of another class.

    Parameters
    ----------
    columns : int64 array of shape (terms,)
        Columns of the input, sum after sum.
    starts : int64 array of shape (sums + 1,)
        Where the terms of each sum begin, and where the last ones end.
    weights : array of shape (terms,)
    bias : array of shape (sums,)
    """

    columns: NDArray[np.int64]
    starts: NDArray[np.int64]
    weights: NDArray[Any]
    bias: NDArray[Any]

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        whole = len(self.starts) == len(self.bias) + 1 and self.starts[-1] == len(self.weights) == len(self.columns)
        if not whole or self.starts[0] != 0 or (self.starts[1:] < self.starts[:-1]).any():
            raise ProgramError(f"OrderedSum: starts {self.starts.tolist()} for {len(self.weights)} terms")
        if len(self.columns) and not 0 <= int(self.columns.min()) <= int(self.columns.max()) < inputs[0]:
            raise ProgramError(f"OrderedSum takes columns up to {int(self.columns.max())} of {inputs[0]}")
        return len(self.bias)


@dataclass(frozen=True, eq=False, slots=True)
class Within(Operator):
    """Hold rows to bounds: a row with a number outside of its column's is bad. The values pass unchanged; so does NaN.

    Parameters
    ----------
    low, high : float64 arrays of shape (columns,)
        The least and the greatest number that may pass.
    reason : str
        What a bad row has, after "row 3 has".
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    reason: str

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        return width_of(self, inputs[0], len(self.low))


@dataclass(frozen=True, eq=False, slots=True)
class Reject(Operator):
    """Hold rows to a rule of the model: a row is bad where the second input has anything but zeros.

    The first input passes unchanged.

    Parameters
    ----------
    reason : str
        What such a row has, for the message, as ``"a bucket out of bounds, which Bucketizer does not take"``.
    """

    arity: ClassVar[int | None] = 2
    reason: str

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        return width_of(self, inputs[0], inputs[0])


@dataclass(frozen=True, eq=False, slots=True)
class After(Operator):
    """The first table, unchanged, after checks of a rewritten program: the other tables, whose rules hold its rows."""

    arity: ClassVar[int | None] = None

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        return inputs[0]
