"""Constants of the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.compiling._operator import Operator

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

__all__ = ["Constant"]


@dataclass(frozen=True, eq=False, slots=True)
class Constant(Operator):
    """Row of constants for every row."""

    values: NDArray[Any]

    def width(self, inputs: Sequence[int]) -> int:  # the input says how many rows there are
        """Return the number of columns of the result."""
        return len(self.values)
