"""Clusterings of scikit-learn that say for a new row which cluster is its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import (
    ArgMax,
    Arithmetic,
    Cast,
    Clip,
    Combine,
    Distances,
    Function,
    Linear,
    Output,
    Reduce,
)
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._checks import checked, plain, refuse
from vista_spark.compiling.sklearn._kernels import scaled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from optimizer.compiling import Builder

__all__ = ["lower_birch", "lower_bisecting", "lower_centers", "lower_k_means", "nearest", "squared_distances"]


def nearest(build: Builder, rows: str, points: NDArray[Any], metric: str = "euclidean") -> str:
    """Give the place of the nearest point, the first of equals.

    The library squares rows and points apart from their product. Done the same way and in the same order, a row that
    lies between two points goes to the same one.
    """
    rows = build.add(Cast("float64"), rows)
    if metric != "euclidean":
        return build.add(ArgMax(), scaled(build, build.add(Distances(points, metric), rows), -1.0))
    return build.add(ArgMax(), scaled(build, squared_distances(build, rows, points), -1.0))


def squared_distances(build: Builder, rows: str, points: NDArray[Any]) -> str:
    """Give the squared distances from points, of rows of float64: squares of both apart from their product.

    Far from all points nothing is left of the difference between two of them, as in the library.
    """
    exact = points.astype(np.float64)
    product = build.add(Linear((-2 * exact).T.copy(), np.zeros(len(exact))), rows)
    own = build.add(Reduce("sum"), build.add(Function("square"), rows))
    square = build.add(Arithmetic("add", (exact * exact).sum(axis=1)), build.add(Combine("add"), own, product))
    return build.add(Clip(0.0, np.inf), square)


@parser("sklearn.KMeans", "sklearn.MiniBatchKMeans")
def lower_k_means(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the nearest centre, and the distances to all of them."""
    return _means(model, build, table, plain(model.cluster_centers_))


@parser("sklearn.AffinityPropagation", "sklearn.MeanShift")
def lower_centers(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the nearest centre."""
    centers = plain(getattr(model, "cluster_centers_", np.zeros((0, 0))))  # sparse, of sparse rows
    if not len(centers):
        raise refuse(model, "no centres (affinity='precomputed', or it did not converge)", "predicts nothing")
    place = nearest(build, checked(model, build, table), centers)
    return {"predict": Output(place, flat=True, labels=np.arange(len(centers)))}


@parser("sklearn.Birch")
def lower_birch(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the nearest subcluster, by its cluster, and the distances to all of them."""
    rows, centers = checked(model, build, table), plain(model.subcluster_centers_)
    labels = np.asarray(model.subcluster_labels_)
    return {
        "predict": Output(nearest(build, rows, centers), flat=True, labels=labels),
        "transform": Output(build.add(Distances(centers, "euclidean"), rows)),
    }


@parser("sklearn.BisectingKMeans")
def lower_bisecting(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the way down the tree of clusters: at each fork to the nearer of two centres."""
    shift = plain(model._X_mean) if hasattr(model, "_X_mean") else 0.0
    forks: list[tuple[NDArray[Any], NDArray[Any]]] = []
    paths: dict[int, list[tuple[int, int]]] = {}

    def descend(node: Any, path: list[tuple[int, int]]) -> None:
        if node.left is None:
            paths[int(node.label)] = path
            return
        place = len(forks)
        forks.append((plain(node.left.center) + shift, plain(node.right.center) + shift))
        descend(node.left, [*path, (place, 0)])
        descend(node.right, [*path, (place, 1)])

    descend(model._bisecting_tree, [])  # the centres alone choose another cluster
    rows = checked(model, build, table)
    outputs = _means(model, build, table, plain(model.cluster_centers_))
    if not forks:
        return outputs
    # How much nearer the left centre is: above or at zero goes left. A path's cluster has all its turns.
    signs = np.zeros((len(forks), len(paths)))
    turns = np.zeros(len(paths))
    for label, path in paths.items():
        for place, side in path:
            signs[place, label] = -1 if side else 1
            turns[label] += side
    lead = _lead(build, rows, forks)
    # Left is 1; the cluster whose turns all agree has the greatest count less the length of its path.
    lengths = np.array([len(paths[label]) for label in range(len(paths))], np.float64)
    agreed = build.add(Linear(signs, turns - lengths), lead)
    labels = np.arange(len(paths), dtype=np.int32)
    return {**outputs, "predict": Output(build.add(ArgMax(), agreed), flat=True, labels=labels)}


def _lead(build: Builder, rows: str, forks: list[tuple[NDArray[Any], NDArray[Any]]]) -> str:
    """Give for each fork 0 where the right centre is nearer than the left one, else 1: beyond all floats, too."""
    left, right = (np.stack([fork[side] for fork in forks]) for side in (0, 1))
    scores = [build.add(Linear((-2 * side).T.copy(), (side * side).sum(axis=1)), rows) for side in (left, right)]
    return build.add(Function("not"), build.add(Combine("less"), scores[1], scores[0]))


def _means(model: Any, build: Builder, table: str, centers: NDArray[Any]) -> dict[str, Output]:
    rows = checked(model, build, table)
    # The library leaves out the row's own square, which all centres share, and doubles products once they are added up.
    product = build.add(Linear(centers.T.copy(), np.zeros(len(centers), centers.dtype)), rows)
    near = build.add(Arithmetic("add", -(centers * centers).sum(axis=1)), scaled(build, product, 2.0))
    place = build.add(ArgMax(), near)
    return {
        "predict": Output(place, flat=True, labels=np.arange(len(centers), dtype=np.int32)),
        "transform": Output(build.add(Distances(centers, "euclidean"), rows)),
    }
