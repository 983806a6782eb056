"""Operators whose results are constants of the model, or chosen from some."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._errors import ProgramError
from ._operator import Operator

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

__all__ = ["Constant", "Relabel"]


@dataclass(frozen=True, eq=False, slots=True)
class Constant(Operator):
    """The same numbers for every row.

    Parameters
    ----------
    values : array of shape (width,)
    """

    values: NDArray[Any]

    def width(self, inputs: Sequence[int]) -> int:  # noqa: ARG002 - the input says how many rows there are
        """Columns of the result."""
        return len(self.values)


@dataclass(frozen=True, eq=False, slots=True)
class Relabel(Operator):
    """The number of each class, for the places of classes.

    Parameters
    ----------
    values : array of shape (classes,)
        Their type is the result's.
    """

    values: NDArray[Any]

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        if not len(self.values):
            raise ProgramError("Relabel: no class has a number")
        return inputs[0]
