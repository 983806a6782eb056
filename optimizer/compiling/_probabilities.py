"""Operators on probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ._errors import ProgramError
from ._operator import Operator

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Log", "LogMean", "Shares"]


@dataclass(frozen=True, eq=False, slots=True)
class Shares(Operator):
    """Each row over its sum.

    Parameters
    ----------
    empty : float
        What a row has whose sum is zero.
    """

    empty: float


@dataclass(frozen=True, eq=False, slots=True)
class Log(Operator):
    """Natural logarithms; minus infinity of zero."""


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
