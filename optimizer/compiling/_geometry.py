"""Operators on rows as points: distances and norms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._errors import ProgramError
from ._operator import Operator, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["FromCentres", "OverNorm"]


@dataclass(frozen=True, eq=False, slots=True)
class FromCentres(Operator):
    """Squared distances to centres, as sums of squared differences: nothing cancels. Float64.

    Parameters
    ----------
    centres : float64 array of shape (centres, width)
    """

    centres: NDArray[np.float64]

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        width_of(self, inputs[0], self.centres.shape[1])
        return len(self.centres)


@dataclass(frozen=True, eq=False, slots=True)
class OverNorm(Operator):
    """Each row over its p-norm; a row whose norm is zero stays.

    Parameters
    ----------
    p : float
        From 1; infinity for the greatest magnitude, NaN left out.
    """

    p: float

    def __post_init__(self) -> None:
        if not self.p >= 1:
            raise ProgramError(f"OverNorm: p={self.p} is less than 1")
