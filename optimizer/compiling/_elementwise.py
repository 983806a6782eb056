"""Element-wise choice between two tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from optimizer.compiling._errors import ProgramError
from optimizer.compiling._operator import Operator

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Choose"]


@dataclass(frozen=True, eq=False, slots=True)
class Choose(Operator):
    """Choice by number: the second table where the first is not zero, else the third. A single column is broadcast."""

    arity: ClassVar[int | None] = 3

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        return _common(self, inputs)


def _common(operator: Operator, inputs: Sequence[int]) -> int:
    most = max(inputs)
    if any(width not in {1, most} for width in inputs):
        raise ProgramError(f"{operator.explain()} of tables of {', '.join(map(str, inputs))} columns")
    return most
