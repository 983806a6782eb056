"""Operators that sort the numbers of a row, and those that gather what places of a row name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from optimizer.compiling._errors import ProgramError
from optimizer.compiling._operator import Operator

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["GatherElements", "TopK"]


@dataclass(frozen=True, eq=False, slots=True)
class TopK(Operator):
    """The greatest numbers of a row in their order, or the least, or the places of these; the first of equals first.

    Parameters
    ----------
    count : int
    largest : bool
    places : bool
        Whether the result is their places, int64.
    """

    count: int
    largest: bool
    places: bool

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        if not 0 < self.count <= inputs[0]:
            raise ProgramError(f"TopK: {self.count} of {inputs[0]} columns")
        return self.count


@dataclass(frozen=True, eq=False, slots=True)
class GatherElements(Operator):
    """Of the first table the columns that the second one names, row by row. A place below zero counts from the end."""

    arity: ClassVar[int | None] = 2

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        return inputs[1]
