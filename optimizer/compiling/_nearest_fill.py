"""Missing numbers filled from the nearest points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.compiling._errors import ProgramError
from optimizer.compiling._operator import Operator, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["NearestFill"]


@dataclass(frozen=True, eq=False, slots=True)
class NearestFill(Operator):
    """A table whose NaN are filled with the mean of the nearest points that have a number in that column.

    Distances are over the columns that both have, scaled up to all columns. The first column of the result is 1 where
    the library's choice among points cannot be known: they are at one distance, or rounding decides, and their numbers
    differ. The filled columns follow, in the input's type.

    Parameters
    ----------
    points : float64 array of shape (points, width)
        NaN for what is missing.
    means : float64 array of shape (width,)
        For a row that shares no column with a point. NaN for a column that no point has: it stays as it is.
    count : int
        Neighbours.
    by_distance : bool
        Whether a number weighs one over its distance.
    step : float
        The relative rounding of the library's distances, which are differences of squares.
    """

    points: NDArray[np.float64]
    means: NDArray[np.float64]
    count: int
    by_distance: bool
    step: float

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        width_of(self, inputs[0], self.points.shape[1])
        if len(self.means) != inputs[0] or self.count < 1:
            raise ProgramError(
                f"NearestFill must have {inputs[0]} means, one per column, and a count of at least 1, got "
                f"{len(self.means)} means and count {self.count}."
            )
        return inputs[0] + 1
