"""Arithmetic operators, and operators that choose classes by scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.compiling._errors import ProgramError
from optimizer.compiling._operator import Operator, check_choice, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

__all__ = [
    "Above",
    "ArgMax",
    "Arithmetic",
    "Cast",
    "Clip",
    "Compare",
    "Complement",
    "Linear",
    "Normalise",
    "Sigmoid",
    "Softmax",
]


@dataclass(frozen=True, eq=False, slots=True)
class Cast(Operator):
    """Cast to another type: ``float32`` rounds to the nearest, as the libraries do; ``int64`` truncates.

    Parameters
    ----------
    dtype : {"float32", "float64", "int64"}
        Type of the result.
    """

    dtype: str

    def __post_init__(self) -> None:
        check_choice("Cast", "dtype", self.dtype, ("float32", "float64", "int64"))


@dataclass(frozen=True, eq=False, slots=True)
class Arithmetic(Operator):
    """Operation with a number per column, computed in the wider type and rounded to the input's.

    A scaler that works in place, as scikit-learn's do, gives the same bits for tables of float32.

    Parameters
    ----------
    kind : {"add", "subtract", "multiply", "divide"}
        Operation.
    operand : array of shape (width,)
        Second operand of each column.
    rounded : bool
        Whether `operand` is rounded to the input's type first. Default false.
    """

    kind: str
    operand: NDArray[Any]
    rounded: bool = False

    def __post_init__(self) -> None:
        check_choice("Arithmetic", "kind", self.kind, ("add", "subtract", "multiply", "divide"))

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        return width_of(self, inputs[0], len(self.operand))


@dataclass(frozen=True, eq=False, slots=True)
class Clip(Operator):
    """Limit numbers to bounds. NaN stays.

    Parameters
    ----------
    low, high : float
        Bounds, included.
    """

    low: float
    high: float


@dataclass(frozen=True, eq=False, slots=True)
class Compare(Operator):
    """Indicator of numbers above a threshold, 1 or 0 in the input's type.

    Parameters
    ----------
    threshold : float
        Number that is not above itself.
    """

    threshold: float


@dataclass(frozen=True, eq=False, slots=True)
class Linear(Operator):
    """``x @ weights + bias``, in the widest of the three types.

    Parameters
    ----------
    weights : array of shape (inputs, outputs)
        Matrix.
    bias : array of shape (outputs,)
        Summand of each output.
    """

    weights: NDArray[Any]
    bias: NDArray[Any]

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        width_of(self, inputs[0], self.weights.shape[0])
        if self.weights.shape[1:] != self.bias.shape:
            raise ProgramError(f"bias must have shape {self.weights.shape[1:]}, got {self.bias.shape}.")
        return len(self.bias)


@dataclass(frozen=True, eq=False, slots=True)
class Normalise(Operator):
    """Divide each row by its norm. A row whose norm is zero stays.

    Parameters
    ----------
    norm : {"l1", "l2", "max", "lp"}
        Norm.
    tiny : bool
        Whether a norm below ten times the type's epsilon counts as zero, as in scikit-learn. Default true. If false,
        only zero does, and ``"max"`` ignores NaN.
    p : float
        Exponent of ``"lp"``, at least 1.
    """

    norm: str
    tiny: bool = True
    p: float = 2.0

    def __post_init__(self) -> None:
        check_choice("Normalise", "norm", self.norm, ("l1", "l2", "lp", "max"))
        if not self.p >= 1:
            raise ProgramError(f"p must be at least 1, got {self.p}.")


@dataclass(frozen=True, eq=False, slots=True)
class Sigmoid(Operator):
    """``1 / (1 + exp(-x))``."""


@dataclass(frozen=True, eq=False, slots=True)
class Softmax(Operator):
    """``exp(x)`` over its sum in each row, after subtraction of the greatest."""


@dataclass(frozen=True, eq=False, slots=True)
class Complement(Operator):
    """Two columns, ``1 - p`` and ``p``, for a probability ``p``."""

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        return width_of(self, inputs[0], 1) + 1


@dataclass(frozen=True, eq=False, slots=True)
class ArgMax(Operator):
    """Index of the greatest number in a row, the first of equals; int64.

    Parameters
    ----------
    nan : {"greatest", "stays first", "left out"}
        Treatment of NaN: the greatest, as in numpy; kept only in the first column, as in a search by ``>``; or ignored.
        A row of NaN alone gets 0. Default ``"greatest"``.
    """

    nan: str = "greatest"

    def __post_init__(self) -> None:
        check_choice("ArgMax", "nan", self.nan, ("greatest", "stays first", "left out"))

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        if not inputs[0]:
            raise ProgramError("ArgMax of no columns")
        return 1


@dataclass(frozen=True, eq=False, slots=True)
class Above(Operator):
    """Class of a binary score: 1 above a threshold, else 0; int64.

    Parameters
    ----------
    threshold : float
        Threshold of the score.
    or_equal : bool
        Whether a score at the threshold is class 1.
    """

    threshold: float
    or_equal: bool

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        return width_of(self, inputs[0], 1)
