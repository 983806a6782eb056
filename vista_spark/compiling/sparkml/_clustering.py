"""K-means of Spark ML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling.sparkml._stages import stage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vista_spark.compiling.sparkml._columns import Columns


@stage("KMeansModel")
def lower_means(model: Any, columns: Columns) -> None:
    """Lower k-means: the nearest centre, the first of equals."""
    centres = np.stack([np.asarray(centre, np.float64) for centre in model.clusterCenters()])
    near = _nearness(model, columns, columns.vector(model.getFeaturesCol(), centres.shape[1]), centres)
    place = columns.add(ops.ArgMax("stays first"), near)
    columns.add_column(model.getPredictionCol(), place, flat=True, role="predict")


def _nearness(model: Any, columns: Columns, table: str, centres: NDArray[np.float64]) -> str:
    """Return a score per centre, greater for nearer centres."""
    who = type(model).__name__
    columns.set_policy("raise")
    table = columns.add(ops.Finite("float64", nan=False, who=who), table)
    if model.getDistanceMeasure() != "cosine":
        return columns.add(ops.Function("negative"), columns.add(ops.Distances(centres, "sqeuclidean"), table))
    empty = columns.add(ops.Function("not"), columns.add(ops.Reduce("max"), columns.add(ops.Function("abs"), table)))
    table = columns.reject(table, empty, f"zeros alone, which have no cosine for {who}", "raise")
    units = centres / np.linalg.norm(centres, axis=1, keepdims=True)
    return columns.add(
        ops.Linear(units.T.copy(), np.zeros(len(units))), columns.add(ops.Normalise("l2", tiny=False), table)
    )
