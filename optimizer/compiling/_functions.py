"""Functions of numbers, of rows and of two tables, and row validation operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from optimizer.compiling._errors import ProgramError
from optimizer.compiling._operator import Operator, check_choice, width_of

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
    """Function of each number, in the input's type. ``"nonzero"`` returns the least normal number for zero.

    Parameters
    ----------
    kind : {"abs", "erf", "exp", "log", "negative", "nonzero", "relu", "sin", "sqrt", "square", "tanh", ...}
        Function. Also ``"ceil"``, ``"expm1"``, ``"floor"``, ``"log1p"``, ``"reciprocal"``, ``"round"`` (half to even),
        ``"sign"``; ``"is_nan"`` and ``"not"`` give 0 and 1.
    """

    kind: str

    def __post_init__(self) -> None:
        check_choice("Function", "kind", self.kind, _FUNCTIONS)


@dataclass(frozen=True, eq=False, slots=True)
class Power(Operator):
    """Power of each number, in the input's type."""

    exponent: float


@dataclass(frozen=True, eq=False, slots=True)
class Combine(Operator):
    """Element-wise operation on two tables, in the wider type. One of them may have a single column.

    Parameters
    ----------
    kind : {"add", "subtract", "multiply", "divide", "maximum", "minimum", "power", ...}
        Operation. Also ``"and"``, ``"or"``, ``"equal"``, ``"greater"``, ``"greater_equal"``, ``"less"`` and
        ``"less_equal"``, which give 0 and 1.
    """

    arity: ClassVar[int | None] = 2
    kind: str

    def __post_init__(self) -> None:
        check_choice("Combine", "kind", self.kind, _COMBINATIONS)

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        if 1 not in inputs and inputs[0] != inputs[1]:
            raise ProgramError(f"Combine of {inputs[0]} and {inputs[1]} columns")
        return max(inputs)


@dataclass(frozen=True, eq=False, slots=True)
class Like(Operator):
    """The first table in the type of the second, as when a library writes into an array of its input's type."""

    arity: ClassVar[int | None] = 2


@dataclass(frozen=True, eq=False, slots=True)
class Reduce(Operator):
    """Reduce each group of adjacent columns to one number.

    Parameters
    ----------
    kind : {"sum", "mean", "max", "min", "logsumexp", "product", "sum_square"}
        Reduction.
    groups : int
        Columns of the result. The groups are equally wide. Default 1.
    """

    kind: str
    groups: int = 1

    def __post_init__(self) -> None:
        check_choice("Reduce", "kind", self.kind, _REDUCTIONS)

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        if self.groups < 1 or not inputs[0] or inputs[0] % self.groups:
            raise ProgramError(f"groups must be a positive divisor of the width {inputs[0]}, got {self.groups}.")
        return self.groups


@dataclass(frozen=True, eq=False, slots=True)
class LogSoftmax(Operator):
    """Logarithms of the probabilities that :class:`Softmax` gives, without a loss at small ones."""


@dataclass(frozen=True, eq=False, slots=True)
class Shares(Operator):
    """Divide each row by its sum.

    Parameters
    ----------
    equal : bool
        Whether a row whose sum is zero becomes equal shares. Otherwise it stays.
    """

    equal: bool


@dataclass(frozen=True, eq=False, slots=True)
class OrderedSum(Operator):
    """Weighted sums of columns in a fixed order: each product is rounded and added to the sum; the bias is added last.

    A matrix product adds in another order and does not round in between, so a score that cancels to zero in the library
    would come out above or below zero, and the row in another class.

    Parameters
    ----------
    columns : int64 array of shape (terms,)
        Columns of the input, sum after sum.
    starts : int64 array of shape (sums + 1,)
        First term of each sum, and the end of the last one.
    weights : array of shape (terms,)
        Weight of each term.
    bias : array of shape (sums,)
        Summand of each sum.
    """

    columns: NDArray[np.int64]
    starts: NDArray[np.int64]
    weights: NDArray[Any]
    bias: NDArray[Any]

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        whole = len(self.starts) == len(self.bias) + 1 and self.starts[-1] == len(self.weights) == len(self.columns)
        if not whole or self.starts[0] != 0 or (self.starts[1:] < self.starts[:-1]).any():
            raise ProgramError(f"starts must ascend from 0 to {len(self.weights)}, got {self.starts.tolist()}.")
        if len(self.columns) and not 0 <= int(self.columns.min()) <= int(self.columns.max()) < inputs[0]:
            raise ProgramError(f"columns must be below {inputs[0]}, got {int(self.columns.max())}.")
        return len(self.bias)


@dataclass(frozen=True, eq=False, slots=True)
class Within(Operator):
    """Row validation: a row with a number outside the bounds of its column is bad. All values and NaN pass unchanged.

    Parameters
    ----------
    low, high : float64 arrays of shape (columns,)
        Least and greatest number that may pass.
    reason : str
        Description of a bad row, after "row 3 has".
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    reason: str

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        return width_of(self, inputs[0], len(self.low))


@dataclass(frozen=True, eq=False, slots=True)
class Reject(Operator):
    """Row validation: a row is bad where the second input has anything but zeros.

    The first input passes unchanged.

    Parameters
    ----------
    reason : str
        Description of a bad row, as ``"a bucket out of bounds, which Bucketizer does not take"``.
    """

    arity: ClassVar[int | None] = 2
    reason: str

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        return width_of(self, inputs[0], inputs[0])


@dataclass(frozen=True, eq=False, slots=True)
class After(Operator):
    """The first table, unchanged, after checks of a rewritten program: the other tables, whose rules hold its rows."""

    arity: ClassVar[int | None] = None

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        return inputs[0]
