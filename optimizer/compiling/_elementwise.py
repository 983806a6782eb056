"""Operators on tables number by number: a choice between two tables, and products of columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from optimizer.compiling._errors import ProgramError
from optimizer.compiling._operator import Operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Choose", "Products"]


@dataclass(frozen=True, eq=False, slots=True)
class Choose(Operator):
    """Choice by number: the second table where the first is not zero, else the third. A single column is broadcast."""

    arity: ClassVar[int | None] = 3

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        return _common(self, inputs)


@dataclass(frozen=True, eq=False, slots=True)
class Products(Operator):
    """Products of columns, factor by factor; one that has become zero stays zero, even times NaN.

    Parameters
    ----------
    factors : int64 array of shape (products, most factors)
        Columns in the order of the multiplication; -1 where there are fewer.
    """

    factors: NDArray[np.int64]

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        if self.factors.size and not -1 <= int(self.factors.min()) <= int(self.factors.max()) < inputs[0]:
            raise ProgramError(f"Products takes columns up to {int(self.factors.max())} of {inputs[0]}")
        return len(self.factors)


def _common(operator: Operator, inputs: Sequence[int]) -> int:
    most = max(inputs)
    if any(width not in {1, most} for width in inputs):
        raise ProgramError(f"{operator.explain()} of tables of {', '.join(map(str, inputs))} columns")
    return most
