"""Operators that combine the results of an ensemble's members, in the order of the members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ._errors import ProgramError
from ._operator import Operator, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Average", "LogMean", "Pairwise", "Votes", "WeightedMedian"]


@dataclass(frozen=True, eq=False, slots=True)
class Average(Operator):
    """The sum of tables of one shape, one after the other, each times its weight; then over a divisor.

    Parameters
    ----------
    weights : float64 array of shape (inputs,), or of no entry
        None of them: the tables are added as they are, in their own type.
    divisor : float
    """

    arity: ClassVar[int | None] = None
    weights: NDArray[np.float64]
    divisor: float

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        if len(set(inputs)) != 1 or len(self.weights) not in {0, len(inputs)}:
            raise ProgramError(f"Average: {len(self.weights)} weights for tables of {list(inputs)} columns")
        return inputs[0]


@dataclass(frozen=True, eq=False, slots=True)
class LogMean(Operator):
    """Logarithms of a mean, for logarithms of what it is the mean of: tables of one shape, one after the other.

    Parameters
    ----------
    divisor : float
        How many the mean is of.
    """

    arity: ClassVar[int | None] = None
    divisor: float

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        if len(set(inputs)) != 1:
            raise ProgramError(f"LogMean of tables of {list(inputs)} columns")
        return inputs[0]


@dataclass(frozen=True, eq=False, slots=True)
class Votes(Operator):
    """What each class gets from voters: per voter one number for the class that it names, another for the others.

    Parameters
    ----------
    hits : float64 array of shape (voters,)
        For the class that a voter names. Its column of the input has the place of this class, or -1 for none.
    misses : float64 array of shape (voters,)
        For all other classes.
    classes : int
    """

    hits: NDArray[np.float64]
    misses: NDArray[np.float64]
    classes: int

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        if self.hits.shape != self.misses.shape:
            raise ProgramError(f"Votes: {len(self.hits)} hits and {len(self.misses)} misses")
        width_of(self, inputs[0], len(self.hits))
        return self.classes


@dataclass(frozen=True, eq=False, slots=True)
class Pairwise(Operator):
    """Scores of classes, from a decision and its confidence for each pair of classes, (0, 1), (0, 2), (1, 2) and so on.

    A class has a vote for each pair that it wins, and below one third for its confidences, which breaks ties.

    Parameters
    ----------
    classes : int
    """

    arity: ClassVar[int | None] = 2
    classes: int

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        for given in inputs:
            width_of(self, given, self.classes * (self.classes - 1) // 2)
        return self.classes


@dataclass(frozen=True, eq=False, slots=True)
class WeightedMedian(Operator):
    """The least number of a row up to which the weights add up to half of them, as float64.

    Parameters
    ----------
    weights : float64 array of shape (width,)
    """

    weights: NDArray[np.float64]

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        width_of(self, inputs[0], len(self.weights))
        return 1
