"""Operators that combine the results of an ensemble's members, in the order of the members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from optimizer.compiling._errors import ProgramError
from optimizer.compiling._operator import Operator, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Average", "LogMean", "Pairwise", "Votes", "WeightedMedian"]


@dataclass(frozen=True, eq=False, slots=True)
class Average(Operator):
    """Weighted sum of tables of one shape, in their order, divided by a divisor.

    Parameters
    ----------
    weights : float64 array of shape (inputs,), or of no entry
        Weight of each table. Without entries, the tables are added in their own type.
    divisor : float
        Divisor of the sum.
    """

    arity: ClassVar[int | None] = None
    weights: NDArray[np.float64]
    divisor: float

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        if len(set(inputs)) != 1 or len(self.weights) not in {0, len(inputs)}:
            raise ProgramError(
                f"Average must have 0 or {len(inputs)} weights and tables of one width, got {len(self.weights)} "
                f"weights and widths {list(inputs)}."
            )
        return inputs[0]


@dataclass(frozen=True, eq=False, slots=True)
class LogMean(Operator):
    """Logarithm of the mean of tables of one shape, given as their logarithms; ``divisor`` is their number."""

    arity: ClassVar[int | None] = None
    divisor: float

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        if len(set(inputs)) != 1:
            raise ProgramError(f"LogMean must have tables of one width, got {list(inputs)}.")
        return inputs[0]


@dataclass(frozen=True, eq=False, slots=True)
class Votes(Operator):
    """Votes for each class: every voter adds one number to the class that it names, another to the others.

    Parameters
    ----------
    hits : float64 array of shape (voters,)
        Number for the class that a voter names. Its column of the input has the index of the class, or -1 for none.
    misses : float64 array of shape (voters,)
        Number for all other classes.
    classes : int
        Number of classes.
    """

    hits: NDArray[np.float64]
    misses: NDArray[np.float64]
    classes: int

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        if self.hits.shape != self.misses.shape:
            raise ProgramError(f"misses must have {len(self.hits)} entries, got {len(self.misses)}.")
        width_of(self, inputs[0], len(self.hits))
        return self.classes


@dataclass(frozen=True, eq=False, slots=True)
class Pairwise(Operator):
    """Scores of classes, from a decision and its confidence for each pair of classes, (0, 1), (0, 2), (1, 2) and so on.

    A class gets a vote for each pair that it wins, and less than one third for its confidences, which breaks ties.
    """

    arity: ClassVar[int | None] = 2
    classes: int

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        for width in inputs:
            width_of(self, width, self.classes * (self.classes - 1) // 2)
        return self.classes


@dataclass(frozen=True, eq=False, slots=True)
class WeightedMedian(Operator):
    """Weighted median of each row: the least number up to which the weights sum to half, as float64.

    Parameters
    ----------
    weights : float64 array of shape (width,)
        Weight of each column.
    """

    weights: NDArray[np.float64]

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        width_of(self, inputs[0], len(self.weights))
        return 1
