"""Coverage of a pool of records by greedy k-centre and core-sets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["DIMENSIONS", "CoreSet", "Projection", "farthest_first", "flattened"]

DIMENSIONS = 128
"""Largest length of a record's vector."""

BLOCK = 8192
"""Number of records that are reduced to a core-set at a time."""

# Number of centres whose distances are computed at a time.
_CHUNK = 1024


def farthest_first(
    points: NDArray[Any], centres: NDArray[Any], count: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Choose the point that is farthest from all centres and chosen points, repeatedly.

    This is greedy k-centre (Gonzalez 1985; Sener and Savarese 2018, algorithm 1), which covers the points within twice
    the best radius. ``centres`` cover points already; without any, the first point is chosen first, at an infinite
    distance. Return the indices in the order of choice, the first among equally distant points, and the distances at
    the time of choice, in descending order.

    Examples
    --------
    >>> line = np.array([[0.0], [1.0], [5.0], [9.0]])
    >>> places, distances = farthest_first(line, np.array([[0.0]]), 2)
    >>> places.tolist(), distances.tolist()
    ([3, 2], [9.0, 4.0])
    """
    points = points.astype(np.float64, copy=False)
    squares = _squared_distances(points, centres.astype(np.float64, copy=False))
    left = np.ones(len(points), np.bool_)
    places, distances = [], []
    for _ in range(min(count, len(points))):
        place = int(np.argmax(np.where(left, squares, -1.0)))
        places.append(place)
        distances.append(float(np.sqrt(squares[place])))
        left[place] = False
        squares = np.minimum(squares, np.square(points - points[place]).sum(axis=1))
    return np.array(places, np.int64), np.array(distances, np.float64)


@dataclass(slots=True)
class CoreSet:
    """Small set of records that covers a stream of records.

    Each block of records is reduced to `count` records by :func:`farthest_first`, and so are all blocks together at the
    end. Let r be the best radius at which `count` records and the centres cover all records. A reduction covers its
    records within 2r, so the union of core-sets covers all within 4r if each part was a single block, and within 6r
    otherwise (composable core-sets: Indyk et al. 2014). ``block`` is the number of records in memory at a time.
    """

    centres: NDArray[np.float32]
    count: int
    block: int = BLOCK
    _ids: list[str] = field(default_factory=list)
    _vectors: list[NDArray[np.float32]] = field(default_factory=list)
    _chosen_ids: list[str] = field(default_factory=list)
    _chosen: list[NDArray[np.float32]] = field(default_factory=list)

    def add(self, ids: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Add the next records in a deterministic order."""
        self._ids += ids
        self._vectors.append(vectors)
        if len(self._ids) >= self.block:
            self._reduce()

    def records(self) -> tuple[list[str], NDArray[np.float32]]:
        """Return the chosen records in the order of their choice."""
        if self._ids:
            self._reduce()
        ids, vectors = self._chosen_ids, _stacked(self._chosen, self.centres.shape[1])
        if len(ids) <= self.count:
            return ids, vectors
        places, _ = farthest_first(vectors, self.centres, self.count)
        return [ids[place] for place in places.tolist()], vectors[places]

    def _reduce(self) -> None:
        vectors = _stacked(self._vectors, self.centres.shape[1])
        places, _ = farthest_first(vectors, self.centres, self.count)
        self._chosen_ids += [self._ids[place] for place in places.tolist()]
        self._chosen.append(vectors[places])
        self._ids, self._vectors = [], []


@dataclass(slots=True)
class Projection:
    """Projection to vectors of at most :data:`DIMENSIONS` numbers that approximately preserves distances.

    Longer vectors are multiplied by a Gaussian matrix, which follows from the seed (Johnson and Lindenstrauss 1984).

    Examples
    --------
    >>> Projection(0)(np.ones((2, 3), np.float32)).tolist()
    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    >>> Projection(0)(np.ones((2, 500), np.float32)).shape
    (2, 128)
    """

    seed: int
    dimensions: int = DIMENSIONS
    _matrix: NDArray[np.float32] | None = None

    def __call__(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Project vectors of shape (rows, numbers)."""
        numbers = vectors.shape[1]
        if numbers <= self.dimensions:
            return vectors
        if self._matrix is None:
            drawn = np.random.default_rng(self.seed).standard_normal((numbers, self.dimensions), np.float32)
            self._matrix = drawn / np.float32(np.sqrt(self.dimensions))
        projected: NDArray[np.float32] = vectors @ self._matrix
        return projected


def flattened(arrays: Sequence[NDArray[Any]], present: NDArray[np.bool_] | None) -> NDArray[np.float32]:
    """Convert the features of each record to a vector.

    ``present`` marks the tokens without padding, over which outputs with a vector per token are averaged.

    Examples
    --------
    >>> hidden = np.array([[[1.0, 2.0], [3.0, 4.0], [9.0, 9.0]]])
    >>> flattened([hidden], np.array([[True, True, False]])).tolist()
    [[2.0, 3.0]]
    """
    parts = []
    for array in arrays:
        values = array.astype(np.float32, copy=False)
        if present is not None and values.ndim > 2 and values.shape[1] == present.shape[1]:
            weights = present.reshape(*present.shape, *(1 for _ in values.shape[2:])).astype(np.float32)
            # Padding may be NaN.
            values = np.where(weights > 0, values, 0).sum(axis=1) / np.maximum(weights.sum(axis=1), 1)
        parts.append(values.reshape(len(values), -1))
    return np.concatenate(parts, axis=1)


def _squared_distances(points: NDArray[np.float64], centres: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute the squared distance of each point to the nearest centre; infinite without centres."""
    nearest = np.full(len(points), np.inf)
    if not len(points):
        return nearest
    lengths = np.square(points).sum(axis=1)
    for start in range(0, len(centres), _CHUNK):
        some = centres[start : start + _CHUNK]
        squares = lengths[:, None] - 2 * points @ some.T + np.square(some).sum(axis=1)
        nearest = np.minimum(nearest, np.maximum(squares.min(axis=1), 0.0))
    return nearest


def _stacked(vectors: Sequence[NDArray[np.float32]], dimensions: int) -> NDArray[np.float32]:
    return np.concatenate([np.empty((0, dimensions), np.float32), *vectors])
