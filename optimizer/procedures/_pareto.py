"""Pareto fronts, and the order of points by front and crowding distance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["best_first", "front"]


def front(points: Sequence[Sequence[float]]) -> list[int]:
    """Find the Pareto front: points that no other point dominates.

    Parameters
    ----------
    points : sequence of sequence of float
        Scores by objective, where higher is better.

    Returns
    -------
    list of int
        Indices in ``points``, in ascending order. Equal points are on the front together, or not at all. A point with a
        NaN is not on the front and dominates no other point.

    Examples
    --------
    >>> front([(3, 1), (1, 3), (2, 2), (1, 2), (3, 1)])
    [0, 1, 2, 4]
    """
    table = _table(points)
    known = np.flatnonzero(~np.isnan(table).any(axis=1))
    return [int(place) for place in known[_ranks(table[known]) == 0]]


def best_first(points: Sequence[Sequence[float]]) -> list[int]:
    """Order points as NSGA-II does: by front, and within a front the least crowded first (Deb et al., 2002, III).

    The first front is that of all points, the second that of the others, and so on. The crowding distance of a point
    is the sum over the objectives of the distance between its neighbours, as a share of the front's range. The first
    and the last point of an objective have an infinite distance. Successive halving with this order is that of
    Schmucker et al., Multi-objective asynchronous successive halving, 2021.

    Parameters
    ----------
    points : sequence of sequence of float
        Scores by objective, where higher is better. With one objective this is the order of the scores.

    Returns
    -------
    list of int
        Indices of all points, the best first; among equal points the one that comes first in ``points``. Points with a
        score that is not finite come last.

    Examples
    --------
    >>> best_first([(1, 3), (2, 2), (3, 1), (0, 2), (2.1, 1.9)])
    [0, 2, 1, 4, 3]
    """
    table = _table(points)
    measured = np.isfinite(table).all(axis=1)
    known = np.flatnonzero(measured)
    ranks = _ranks(table[known])
    distances = np.zeros(len(known))
    for rank in range(ranks.max(initial=-1) + 1):
        members = np.flatnonzero(ranks == rank)
        distances[members] = _crowding(table[known[members]])
    # Stable, by the last key first: of equal ones the order of the points stays.
    order = np.lexsort((-distances, ranks))
    return [int(place) for place in (*known[order], *np.flatnonzero(~measured))]


def _table(points: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    return np.array([tuple(point) for point in points], np.float64).reshape(len(points), -1 if points else 1)


def _ranks(points: NDArray[np.float64]) -> NDArray[np.int64]:
    """Number the fronts: 0 for the points that none dominates, 1 for those that only these do, and so on."""
    count = len(points)
    dominates = np.zeros((count, count), np.bool_)
    for place, point in enumerate(points):
        dominates[place] = (point >= points).all(axis=1) & (point > points).any(axis=1)
    above = dominates.sum(axis=0)
    ranks = np.full(count, -1)
    rank = 0
    while (members := np.flatnonzero((above == 0) & (ranks < 0))).size:
        ranks[members] = rank
        above -= dominates[members].sum(axis=0)
        rank += 1
    return ranks


def _crowding(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum the distances between a point's neighbours in each objective, as shares of the range."""
    distances = np.zeros(len(points))
    for column in points.T:
        # Halves: the range of finite numbers may be infinite.
        values = column / 2
        order = np.argsort(values, kind="stable")
        width = values[order[-1]] - values[order[0]]
        if width > 0:
            distances[order[[0, -1]]] = np.inf
            distances[order[1:-1]] += (values[order[2:]] - values[order[:-2]]) / width
    return distances
