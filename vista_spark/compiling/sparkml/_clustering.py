"""K-means, bisecting k-means and Gaussian mixtures of Spark ML."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import (
    ArgMax,
    Arithmetic,
    Combine,
    Concatenate,
    Distances,
    Finite,
    Function,
    Linear,
    Normalise,
    Reduce,
    Select,
    Shares,
    Trees,
)
from vista_spark.compiling.sparkml._saved import saved_table
from vista_spark.compiling.sparkml._stages import refuse, stage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vista_spark.compiling.sparkml._columns import Columns

__all__ = ["lower_bisecting", "lower_means", "lower_mixture"]

_STEP = 2.0**-52


@stage("KMeansModel")
def lower_means(model: Any, columns: Columns) -> None:
    """Lower k-means: the nearest centre, the first of equals."""
    centres = np.stack([np.asarray(centre, np.float64) for centre in model.clusterCenters()])
    near = _nearness(model, columns, columns.vector(model.getFeaturesCol(), centres.shape[1]), centres)
    place = columns.add(ArgMax("stays first"), near)
    columns.give(model.getPredictionCol(), place, flat=True, role="predict")


@stage("BisectingKMeansModel")
def lower_bisecting(model: Any, columns: Columns) -> None:
    """Lower bisecting k-means: down a tree whose splits ask which of two centres is nearer."""
    (table,) = saved_table(model, "data/data")
    nodes = {one["index"]: one for one in table.to_pylist()}
    inner = {index: one["children"] for index, one in nodes.items() if one["children"]}
    if any(len(children) != 2 for children in inner.values()):  # it bisects
        raise refuse(model, "a split in more than two")
    order = list(nodes)
    centres = np.stack([_dense(nodes[index]["center"]) for index in order])
    near = _nearness(model, columns, columns.vector(model.getFeaturesCol(), centres.shape[1]), centres)
    places = {index: place for place, index in enumerate(order)}
    firsts, seconds = (
        columns.add(Select(np.array([places[pair[side]] for pair in inner.values()] or [0])), near) for side in (0, 1)
    )
    # The first of equals, so at most zero: what the second is nearer by.
    nearer = columns.add(Combine("subtract"), seconds, firsts)
    split = {index: column for column, index in enumerate(inner)}
    (root,) = set(nodes) - {child for pair in inner.values() for child in pair}
    tree = Trees.of_nodes(
        feature=[split.get(index, 0) for index in order],
        threshold=np.zeros(len(order)),
        left=[places[inner[index][0]] if index in inner else -1 for index in order],
        right=[places[inner[index][1]] if index in inner else -1 for index in order],
        missing_left=[True] * len(order),
        value=np.array([[float(index)] for index in order]),
        root=[places[root]],
        target=[0],
        base=[0.0],
        divisor=1.0,
        features=columns.widths[nearer],
        missing=False,
    )
    columns.give(model.getPredictionCol(), columns.add(tree, nearer), flat=True, role="predict")


@stage("GaussianMixtureModel")
def lower_mixture(model: Any, columns: Columns) -> None:
    """Lower a mixture: shares of the densities, each a little above zero."""
    parts = model.gaussiansDF.collect()
    width = len(parts[0]["mean"])
    table = columns.vector(model.getFeaturesCol(), width)
    columns.hold("raise")
    table = columns.add(Finite("float64", nan=False, who="GaussianMixtureModel"), table)
    weights = np.asarray(model.weights, np.float64)
    logs = []
    for part in parts:
        root, constant = _whitening(model, part["cov"].toArray())
        shifted = columns.add(Arithmetic("subtract", part["mean"].toArray().copy()), table)
        square = columns.add(Reduce("sum_square"), columns.add(Linear(root, np.zeros(root.shape[1])), shifted))
        logs.append(columns.scaled(square, -0.5, constant))
    densities = columns.add(Function("exp"), columns.add(Concatenate(), *logs))
    weighted = columns.scaled(columns.add(Arithmetic("multiply", weights), densities), 1.0, _STEP)
    shares = columns.add(Shares(equal=False), weighted)
    columns.give(model.getProbabilityCol(), shares, role="predict_proba")
    columns.give(model.getPredictionCol(), columns.add(ArgMax("stays first"), shares), flat=True, role="predict")


def _whitening(model: Any, covariance: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Give the inverse root of a covariance, and the constant of the density's logarithm; tiny axes are left out."""
    values, axes = np.linalg.eigh(covariance)
    kept = values > _STEP * values.max() * len(values)
    if not kept.any():
        raise refuse(model, "a covariance without an axis")
    root = axes[:, kept] / np.sqrt(values[kept])
    return root.copy(), float(-0.5 * (len(values) * math.log(2 * math.pi) + np.log(values[kept]).sum()))


def _nearness(model: Any, columns: Columns, table: str, centres: NDArray[np.float64]) -> str:
    """Give numbers that are the greater the nearer a centre is."""
    who = type(model).__name__
    columns.hold("raise")
    table = columns.add(Finite("float64", nan=False, who=who), table)
    if model.getDistanceMeasure() != "cosine":
        return columns.add(Function("negative"), columns.add(Distances(centres, "sqeuclidean"), table))
    empty = columns.add(Function("not"), columns.add(Reduce("max"), columns.add(Function("abs"), table)))
    table = columns.reject(table, empty, f"zeros alone, which have no cosine for {who}", "raise")
    own = centres / np.linalg.norm(centres, axis=1, keepdims=True)
    return columns.add(Linear(own.T.copy(), np.zeros(len(own))), columns.add(Normalise("l2", tiny=False), table))


def _dense(vector: Any) -> NDArray[np.float64]:
    """Give a vector, which Arrow has as its parts."""
    if hasattr(vector, "toArray"):
        return np.asarray(vector.toArray(), np.float64)
    if vector["size"] is None:
        return np.asarray(vector["values"], np.float64)
    dense = np.zeros(vector["size"])
    dense[vector["indices"]] = vector["values"]
    return dense
