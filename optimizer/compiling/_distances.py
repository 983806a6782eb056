"""Operators that compare rows with the points of a model: distances, neighbours, and votes of pairs of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optimizer.compiling._errors import ProgramError
from optimizer.compiling._operator import Operator, check_choice, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["METRICS", "Coupling", "Distances", "Least", "Neighbors"]

METRICS = ("sqeuclidean", "euclidean", "manhattan", "chebyshev", "minkowski", "cosine")
"""Distances between a row and a point."""


@dataclass(frozen=True, eq=False, slots=True)
class Distances(Operator):
    """The distance of each row to each point, in the wider type.

    Differences are taken before they are squared, and added feature by feature: near a point nothing cancels.

    Parameters
    ----------
    points : array of shape (points, columns)
        Points that distances are measured to.
    metric : str
        One of :data:`METRICS`.
    p : float
        The exponent of ``"minkowski"``. Default 2.
    """

    points: NDArray[Any]
    metric: str
    p: float = 2.0

    def __post_init__(self) -> None:
        check_choice("Distances", "metric", self.metric, METRICS)

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        width_of(self, inputs[0], self.points.shape[1])
        return len(self.points)


@dataclass(frozen=True, eq=False, slots=True)
class Least(Operator):
    """Least numbers of each row in ascending order, then their places; of equals the first comes first.

    Parameters
    ----------
    count : int
        Numbers, at least 1.
    """

    count: int

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        if not 1 <= self.count <= inputs[0]:
            raise ProgramError(f"count of Least must be 1 to {inputs[0]}, the columns of its input, got {self.count}.")
        return 2 * self.count


@dataclass(frozen=True, eq=False, slots=True)
class Neighbors(Operator):
    """Mean of the values of the nearest points, and whether the library's choice of them is known.

    The first column of the result is 1 where the choice is unknown: points at one distance, of different values,
    compete for the last places, and the library chooses by the order of its search. The second column is `count`.

    Parameters
    ----------
    points : float64 array of shape (points, columns)
        Training points.
    values : float64 array of shape (points, values)
        Values of each point.
    metric : str
        One of :data:`METRICS`.
    p : float
        The exponent of ``"minkowski"``.
    count : int
        Neighbours, at least 1.
    radius : float
        Unused; part of saved programs.
    by_distance : bool
        Whether a value weighs one over its distance, and a point at distance zero alone counts.
    rounding : {"exact", "ball", "expanded", "single"}
        Rounding of the library's distances. ``"expanded"``: squares of rows and points are rounded apart from their
        product. ``"single"``: differences or products are rounded to float32. ``"ball"`` is ``"exact"``, in saved
        programs.
    groups : int64 array
        First column of each group of votes, if the values are votes. A group ends before the next one begins.
    """

    points: NDArray[np.float64]
    values: NDArray[np.float64]
    metric: str
    p: float
    count: int
    radius: float
    by_distance: bool
    rounding: str
    groups: NDArray[np.int64]

    def __post_init__(self) -> None:
        check_choice("Neighbors", "metric", self.metric, METRICS)
        check_choice("Neighbors", "rounding", self.rounding, ("exact", "ball", "expanded", "single"))

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        width_of(self, inputs[0], self.points.shape[1])
        if len(self.points) != len(self.values) or not 1 <= self.count <= len(self.points):
            raise ProgramError(
                "Neighbors must have a value per point and a count from 1 to the number of points, got "
                f"{len(self.points)} points, {len(self.values)} values and count {self.count}."
            )
        return int(self.values.shape[1]) + 2


@dataclass(frozen=True, eq=False, slots=True)
class Coupling(Operator):
    """Probabilities of classes from those of each pair, as libsvm couples them (Wu, Lin and Weng 2004, second method).

    The rounds end where libsvm ends them: they have not converged by then.

    Parameters
    ----------
    classes : int
        Pairs come as (0, 1), (0, 2), ..., (1, 2), ...; a number is the probability of the first of its pair.
    """

    classes: int

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        width_of(self, inputs[0], self.classes * (self.classes - 1) // 2)
        return self.classes
