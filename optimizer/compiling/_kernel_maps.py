"""Operators of kernel maps: centring, count sketches, and the additive chi-squared kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.compiling._errors import ProgramError
from optimizer.compiling._operator import Operator, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["AdditiveChi2", "CountSketch", "KernelCentre"]


@dataclass(frozen=True, eq=False, slots=True)
class KernelCentre(Operator):
    """A kernel minus the means of its row, and of the training rows, plus the mean of all.

    Parameters
    ----------
    rows : array of shape (width,)
        Mean of each training row.
    whole : float
        Mean of all.
    """

    rows: NDArray[Any]
    whole: float

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        return width_of(self, inputs[0], len(self.rows))


@dataclass(frozen=True, eq=False, slots=True)
class CountSketch(Operator):
    """Sketches of each row, convolved with each other by Fourier transforms: a sketch of its polynomial kernel.

    Parameters
    ----------
    places : int64 array of shape (degree, width)
        The column of a sketch to which a column is added.
    signs : float64 array of shape (degree, width)
        1 or -1, by which it is multiplied.
    columns : int
        Of the result.
    """

    places: NDArray[np.int64]
    signs: NDArray[np.float64]
    columns: int

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        if self.places.shape != self.signs.shape:
            raise ProgramError(f"CountSketch: places of shape {self.places.shape} and signs of {self.signs.shape}")
        width_of(self, inputs[0], self.places.shape[1])
        return self.columns


@dataclass(frozen=True, eq=False, slots=True)
class AdditiveChi2(Operator):
    """Samples of the spectrum of the additive chi-squared kernel; those of zero are zero.

    Parameters
    ----------
    steps : int
    interval : float
        Between samples.
    """

    steps: int
    interval: float

    def width(self, inputs: Sequence[int]) -> int:
        """Columns of the result."""
        return inputs[0] * (2 * self.steps - 1)
