"""Operator on the leaves that trees reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.compiling._errors import ProgramError
from optimizer.compiling._operator import Operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Leaves"]


@dataclass(frozen=True, eq=False, slots=True)
class Leaves(Operator):
    """Numbers of the leaves, as the library has them; int64. Its input is a node of ``Trees``.

    Parameters
    ----------
    number : int64 array of shape (nodes,)
        Number of each node in the node table.
    trees : int
        Number of trees.
    columns : int
        With a number above 0, trees are laid out by round and column: the result has shape
        (rows, trees / columns, columns).
    """

    number: NDArray[np.int64]
    trees: int
    columns: int = 0

    def width(self, inputs: Sequence[int]) -> int:  # the leaves are read, not the sums
        """Return the number of columns of the result."""
        if self.columns and self.trees % self.columns:
            raise ProgramError(f"trees must be a multiple of columns={self.columns}, got {self.trees}.")
        return self.trees
