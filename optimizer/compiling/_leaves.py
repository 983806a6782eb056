"""Operators that follow trees: they take the leaf that each tree found, not the sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from optimizer.compiling._errors import ProgramError
from optimizer.compiling._operator import Operator, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Indicators", "Leaves", "LinearLeaves"]


@dataclass(frozen=True, eq=False, slots=True)
class Leaves(Operator):
    """Numbers of the leaves, as the library has them; int64. Its input is a node of ``Trees``.

    Parameters
    ----------
    number : int64 array of shape (nodes,)
        Of each node in the table of the trees.
    trees : int
    columns : int
        With a number above 0, trees are laid out by round and column: the result has shape
        (rows, trees / columns, columns).
    """

    number: NDArray[np.int64]
    trees: int
    columns: int = 0

    def width(self, inputs: Sequence[int]) -> int:  # the leaves are read, not the sums
        """Columns of the result."""
        if self.columns and self.trees % self.columns:
            raise ProgramError(f"Leaves: {self.trees} trees cannot be laid out in {self.columns} columns")
        return self.trees


@dataclass(frozen=True, eq=False, slots=True)
class LinearLeaves(Operator):
    """Sums of leaves that have a linear model each. Its inputs are a node of ``Trees``, and the table.

    A leaf adds ``constant + x[column] @ weight``; where one of these numbers is NaN, its plain value.

    Parameters
    ----------
    constant, value : float64 arrays of shape (nodes,)
    column : int64 array of shape (nodes, terms)
        Columns of the table; -1 for no more terms.
    weight : float64 array of shape (nodes, terms)
    target : int64 array of shape (trees,)
        Column of the result to which a tree adds.
    base : float64 array of shape (columns,)
    features : int
        Columns of the table.
    """

    arity: ClassVar[int | None] = 2

    constant: NDArray[np.float64]
    value: NDArray[np.float64]
    column: NDArray[np.int64]
    weight: NDArray[np.float64]
    target: NDArray[np.int64]
    base: NDArray[np.float64]
    features: int

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        width_of(self, inputs[1], self.features)
        if self.column.shape != self.weight.shape or not len(self.constant) == len(self.value) == len(self.column):
            raise ProgramError("LinearLeaves: constants, values, columns and weights have unequal lengths")
        if self.column.size and not -1 <= int(self.column.min()) <= int(self.column.max()) < self.features:
            raise ProgramError(f"LinearLeaves: a leaf reads column {int(self.column.max())} of {self.features}")
        return len(self.base)


@dataclass(frozen=True, eq=False, slots=True)
class Indicators(Operator):
    """A table of zeros, with ones in the columns that each row names.

    Parameters
    ----------
    columns : int
        Columns of the result.
    """

    columns: int

    def width(self, inputs: Sequence[int]) -> int:  # any number of columns may be named
        """Columns of the result."""
        return self.columns
