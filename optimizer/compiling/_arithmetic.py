"""Operators that compute with each number, and those that make classes of scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._errors import ProgramError
from ._operator import Operator, check_choice, width_of

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
    """The numbers in another type: ``float32`` rounds to the nearest, as the libraries do; ``int64`` cuts off.

    Parameters
    ----------
    dtype : {"float32", "float64", "int64"}
    """

    dtype: str

    def __post_init__(self) -> None:
        check_choice("Cast", "dtype", self.dtype, ("float32", "float64", "int64"))


@dataclass(frozen=True, eq=False, slots=True)
class Arithmetic(Operator):
    """One operation with a number per column. Computed in the wider type, rounded to the input's.

    So a scaler that works in place, as scikit-learn's do, gives the same bits for tables of float32 too.

    Parameters
    ----------
    kind : {"add", "subtract", "multiply", "divide"}
    operand : array of shape (width,)
    rounded : bool
        Whether the numbers are rounded to the input's type first. Default false.
    """

    kind: str
    operand: NDArray[Any]
    rounded: bool = False

    def __post_init__(self) -> None:
        check_choice("Arithmetic", "kind", self.kind, ("add", "subtract", "multiply", "divide"))

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        return width_of(self, inputs[0], len(self.operand))


@dataclass(frozen=True, eq=False, slots=True)
class Clip(Operator):
    """The nearest number between two bounds; NaN stays.

    Parameters
    ----------
    low, high : float
    """

    low: float
    high: float


@dataclass(frozen=True, eq=False, slots=True)
class Compare(Operator):
    """One where a number is above a threshold, else zero, in the input's type.

    Parameters
    ----------
    threshold : float
    """

    threshold: float


@dataclass(frozen=True, eq=False, slots=True)
class Linear(Operator):
    """``x @ weights + bias``, in the widest of the three types.

    Parameters
    ----------
    weights : array of shape (inputs, outputs)
    bias : array of shape (outputs,)
    """

    weights: NDArray[Any]
    bias: NDArray[Any]

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        width_of(self, inputs[0], self.weights.shape[0])
        if self.weights.shape[1:] != self.bias.shape:
            raise ProgramError(f"Linear: weights of shape {self.weights.shape} and a bias of {self.bias.shape}")
        return len(self.bias)


@dataclass(frozen=True, eq=False, slots=True)
class Normalise(Operator):
    """Each row over its norm; a row whose norm is zero stays.

    Parameters
    ----------
    norm : {"l1", "l2", "max", "lp"}
    tiny : bool
        Whether a norm below ten steps of the type counts as zero, as scikit-learn has it. Without, only zero does, and
        the greatest magnitude leaves NaN out.
    p : float
        The exponent of ``"lp"``, from 1.
    """

    norm: str
    tiny: bool = True
    p: float = 2.0

    def __post_init__(self) -> None:
        check_choice("Normalise", "norm", self.norm, ("l1", "l2", "lp", "max"))
        if not self.p >= 1:
            raise ProgramError(f"Normalise: p={self.p} is less than 1")


@dataclass(frozen=True, eq=False, slots=True)
class Sigmoid(Operator):
    """``1 / (1 + exp(-x))``."""


@dataclass(frozen=True, eq=False, slots=True)
class Softmax(Operator):
    """``exp(x)`` over its sum in each row, with the greatest taken off first."""


@dataclass(frozen=True, eq=False, slots=True)
class Complement(Operator):
    """Of a probability ``p``: the two columns ``1 - p`` and ``p``."""

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        return width_of(self, inputs[0], 1) + 1


@dataclass(frozen=True, eq=False, slots=True)
class ArgMax(Operator):
    """The place of the greatest number in a row, the first of equals; int64.

    Parameters
    ----------
    nan : {"greatest", "stays first", "left out"}
        What NaN is: the greatest, as numpy has it; or nothing is greater than it and it is greater than nothing, as a
        search by ``>`` has it, which begins with the first column; or it does not take part. A row of NaN alone gets 0.
    """

    nan: str = "greatest"

    def __post_init__(self) -> None:
        check_choice("ArgMax", "nan", self.nan, ("greatest", "stays first", "left out"))

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        if not inputs[0]:
            raise ProgramError("ArgMax of no columns")
        return 1


@dataclass(frozen=True, eq=False, slots=True)
class Above(Operator):
    """The class of a score between two: 1 above a threshold, else 0; int64.

    Parameters
    ----------
    threshold : float
    or_equal : bool
        Whether a score at the threshold is class 1 too.
    """

    threshold: float
    or_equal: bool

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        return width_of(self, inputs[0], 1)
