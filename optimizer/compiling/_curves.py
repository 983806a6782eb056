"""Element-wise non-linear transforms: functions of numpy, powers, quantiles, bins, monomials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from optimizer.compiling._errors import ProgramError
from optimizer.compiling._operator import Operator, check_choice, later, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

__all__ = ["UFUNCS", "Bins", "Missing", "Monomials", "Patch", "PowerTransform", "Quantiles", "Ufunc"]

UFUNCS = (
    *("absolute", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "cbrt", "ceil", "cos", "cosh"),
    *("deg2rad", "degrees", "exp", "exp2", "expm1", "fabs", "floor", "isfinite", "isinf", "isnan", "log", "log10"),
    *("log1p", "log2", "negative", "positive", "rad2deg", "radians", "rint", "sign", "signbit", "sin", "sinh", "sqrt"),
    *("square", "tan", "tanh", "trunc"),
)
"""Functions of numpy with one argument, by name. Without ``reciprocal``, which divides whole numbers as such."""


@dataclass(frozen=True, eq=False, slots=True)
class Ufunc(Operator):
    """Function of numpy for each number, in the input's type.

    Parameters
    ----------
    name : str
        One of :data:`UFUNCS`.
    kinds : sequence of str
        Type in which numpy computes each column and returns what it makes of it, such as ``"int8"``; empty for the
        table's. Default none.
    """

    name: str
    kinds: Sequence[str] = later(())

    def __post_init__(self) -> None:
        check_choice("Ufunc", "name", self.name, UFUNCS)


@dataclass(frozen=True, eq=False, slots=True)
class PowerTransform(Operator):
    """The power transform of Box and Cox, or of Yeo and Johnson, in the input's type.

    Parameters
    ----------
    method : {"box-cox", "yeo-johnson"}
        Transform.
    lambdas : array of shape (width,)
        Exponent of each column.
    """

    method: str
    lambdas: NDArray[Any]

    def __post_init__(self) -> None:
        check_choice("PowerTransform", "method", self.method, ("box-cox", "yeo-johnson"))

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        return width_of(self, inputs[0], len(self.lambdas))


@dataclass(frozen=True, eq=False, slots=True)
class Quantiles(Operator):
    """The share of the training rows below each number, between quantiles on a line; NaN stays. In the input's type.

    Where quantiles are equal, it is the mean of the least and the greatest share.

    Parameters
    ----------
    quantiles : array of shape (references, width)
        Ascending in each column.
    references : float64 array of shape (references,)
        Shares from 0 to 1.
    normal : bool
        Whether the shares become quantiles of the normal distribution, between -5.2 and 5.2.
    """

    quantiles: NDArray[Any]
    references: NDArray[np.float64]
    normal: bool

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        if len(self.quantiles) != len(self.references):
            raise ProgramError(f"quantiles must have {len(self.references)} rows, got {len(self.quantiles)}.")
        return width_of(self, inputs[0], self.quantiles.shape[1])


@dataclass(frozen=True, eq=False, slots=True)
class Bins(Operator):
    """The number of edges that are not above a number: its bin. int64.

    Parameters
    ----------
    edges : float64 array of shape (sum of sizes,)
        Ascending in each column.
    sizes : int64 array of shape (width,)
        Number of edges of each column.
    """

    edges: NDArray[np.float64]
    sizes: NDArray[np.int64]

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        if len(self.edges) != int(self.sizes.sum()):
            raise ProgramError(f"edges must have {int(self.sizes.sum())} entries, got {len(self.edges)}.")
        return width_of(self, inputs[0], len(self.sizes))


@dataclass(frozen=True, eq=False, slots=True)
class Monomials(Operator):
    """Column of ones, the input columns, and products of earlier columns with input columns.

    Parameters
    ----------
    left : int64 array of shape (products,)
        Place of a factor: 0 is the column of ones, 1 the first column, and products follow the columns.
    right : int64 array of shape (products,)
        Column of the input that it is multiplied by.
    rounds : int64 array of shape (rounds,)
        Products of each round, which reads the results of those before.
    """

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    rounds: NDArray[np.int64]

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        if len(self.left) != len(self.right) or int(self.rounds.sum()) != len(self.left):
            raise ProgramError(
                f"left and right must have {int(self.rounds.sum())} entries, got {len(self.left)}, {len(self.right)}."
            )
        known = 1 + inputs[0]
        for size, end in zip(self.rounds.tolist(), np.cumsum(self.rounds).tolist(), strict=True):
            left, right = self.left[end - size : end], self.right[end - size : end]
            if size and not (0 <= left.min() <= left.max() < known and 0 <= right.min() <= right.max() < inputs[0]):
                raise ProgramError(
                    f"factors of a round must be known columns, got others in a round of {size} products."
                )
            known += size
        return known


@dataclass(frozen=True, eq=False, slots=True)
class Missing(Operator):
    """Indicator of missing numbers, 1 or 0 in the input's type.

    Parameters
    ----------
    mark : float
        NaN, or a number.
    """

    mark: float


@dataclass(frozen=True, eq=False, slots=True)
class Patch(Operator):
    """A table, one of whose columns is filled where another table has a missing number.

    Inputs: the table to fill, the table that has the marks, and the column that fills.

    Parameters
    ----------
    column : int
        Column to fill.
    mark : float
        NaN, or a number.
    low, high : float
        Limits to which the fill values are clipped.
    """

    arity: ClassVar[int | None] = 3

    column: int
    mark: float
    low: float
    high: float

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        if not 0 <= self.column < inputs[0] or inputs[2] != 1:
            raise ProgramError(f"Patch of column {self.column} of {inputs[0]} by {inputs[2]} columns")
        return width_of(self, inputs[1], inputs[0])
