"""Nearest neighbours of rows: exact in small tables, and within neighbouring cells of k-means in large ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["nearest_neighbors"]

_EXACT_ROWS = 20_000
_CELLS = 8  # cells whose rows are compared with those of a cell
_SAMPLE = 100_000  # rows that decide the cells


def nearest_neighbors(
    rows: NDArray[np.float32],
    k: int,
    metric: str,
    *,
    queries: NDArray[np.float32] | None = None,
    exact_rows: int = _EXACT_ROWS,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Find the nearest rows of each row, or of each query.

    Above ``exact_rows`` rows the result is approximate: a row is compared with those of its own cell and of the nearest
    others, so that the time grows with the power of 1.5 of the number of rows.

    Parameters
    ----------
    rows : array, shape (rows, features)
        Features.
    k : int
        Number of neighbours; a row is not its own neighbour.
    metric : {"cosine", "euclidean"}
        Distance.
    queries : array, shape (queries, features), optional
        Features of other rows, whose neighbours are wanted. Default: the rows themselves.
    exact_rows : int, optional
        Largest number of rows with an exact result. Default 20,000.

    Returns
    -------
    distances : array, shape (queries, k)
        In ascending order.
    places : array of int, shape (queries, k)
        Places of the neighbours among the rows.

    Examples
    --------
    >>> distances, places = nearest_neighbors(np.array([[0.0, 1], [0, 2], [5, 5]], np.float32), 1, "euclidean")
    >>> places.ravel().tolist(), distances.ravel().tolist()[:2]
    ([1, 0, 1], [1.0, 1.0])
    """
    base = _scaled(rows, metric)
    asked = base if queries is None else _scaled(queries, metric)
    are_rows = queries is None
    k = min(k, len(base) - are_rows)
    if len(base) <= exact_rows:
        query_numbers = np.arange(len(base)) if are_rows else None
        distances, places = _compared(base, np.arange(len(base)), asked, query_numbers, k)
    else:
        distances, places = _within_cells(base, asked, k, are_rows=are_rows)
    # Half the square of the distance between unit vectors is the cosine distance.
    return (distances**2 / 2 if metric == "cosine" else distances), places


def _scaled(rows: NDArray[np.float32], metric: str) -> NDArray[np.float64]:
    values = rows.astype(np.float64)
    if metric == "cosine":
        norms = np.linalg.norm(values, axis=1, keepdims=True)
        values /= np.where(norms > 0, norms, 1)
    return values


def _compared(
    base: NDArray[np.float64],
    numbers: NDArray[np.int64],
    asked: NDArray[np.float64],
    query_numbers: NDArray[np.int64] | None,
    k: int,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Compare queries with all rows of ``base``, which have ``numbers``; ``query_numbers`` are those of the queries."""
    from sklearn.neighbors import NearestNeighbors  # a requirement of cleanlab

    more = k if query_numbers is None else k + 1
    distances, places = NearestNeighbors(n_neighbors=more).fit(base).kneighbors(asked)
    neighbors = numbers[places]
    if query_numbers is None:
        return distances, neighbors
    # Among exact copies a row is not always its own first neighbour.
    is_self = neighbors == query_numbers[:, None]
    is_self[~is_self.any(axis=1), -1] = True
    return distances[~is_self].reshape(len(asked), k), neighbors[~is_self].reshape(len(asked), k)


def _within_cells(
    base: NDArray[np.float64], asked: NDArray[np.float64], k: int, *, are_rows: bool
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    from sklearn.cluster import MiniBatchKMeans

    random = np.random.default_rng(0)
    sample = base[random.choice(len(base), min(len(base), _SAMPLE), replace=False)]
    cells = MiniBatchKMeans(math.isqrt(len(base)), n_init=1, random_state=0).fit(sample)
    members = _by_cell(cells.predict(base), len(cells.cluster_centers_))
    asking = members if are_rows else _by_cell(cells.predict(asked), len(members))
    _, near = nearest_neighbors(cells.cluster_centers_, len(members) - 1, "euclidean")
    distances = np.empty((len(asked), k))
    places = np.empty((len(asked), k), np.int64)
    for cell, queries in enumerate(asking):
        if len(queries):
            chosen, count = [members[cell]], len(members[cell])
            for other in near[cell]:
                if len(chosen) >= _CELLS and count > k:
                    break
                chosen.append(members[other])
                count += len(members[other])
            numbers = np.concatenate(chosen)
            query_numbers = queries if are_rows else None
            distances[queries], places[queries] = _compared(base[numbers], numbers, asked[queries], query_numbers, k)
    return distances, places


def _by_cell(labels: NDArray[np.int64], count: int) -> list[NDArray[np.int64]]:
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.searchsorted(labels[order], np.arange(1, count)))
