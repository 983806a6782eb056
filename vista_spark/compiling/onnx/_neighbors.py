"""Distances from the rows of a fit, and the nearest of them, as skl2onnx writes neighbours with ``optim="cdist"``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling.onnx._graph import Table, refuse
from vista_spark.compiling.onnx._nodes import operator

if TYPE_CHECKING:
    from vista_spark.compiling.onnx._graph import Graph


@operator("com.microsoft.CDist")
def lower_distances(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower the distances of rows from constant points."""
    table, points = graph.table(node, inputs[0]), inputs[1]
    metric = attributes.get("metric", "sqeuclidean")
    if not isinstance(points, np.ndarray):
        raise refuse(node, "computed points")
    if metric not in {"euclidean", "sqeuclidean"}:
        raise refuse(node, f"metric={metric!r}")
    return graph.add(ops.Distances(points.copy(), metric), table, shape=(len(points),))


@operator("TopK")
def lower_least(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> list[Table]:
    """Lower the least or greatest numbers of each row, and their places."""
    table, count = graph.table(node, inputs[0]), inputs[1]
    axis = attributes.get("axis", -1)
    if not isinstance(count, np.ndarray):
        raise refuse(node, "a computed K")
    if axis not in {-1, 1} or len(table.shape) != 1:
        raise refuse(node, f"axis={axis} of rows of shape {table.shape}")
    size, greatest = int(count.reshape(-1)[0]), bool(attributes.get("largest", 1))
    ordered = graph.add(ops.Function("negative"), table) if greatest else table
    both = graph.add(ops.Least(size), ordered, shape=(2 * size,))
    values, places = graph.take(both, np.arange(size)), graph.take(both, np.arange(size, 2 * size))
    values = graph.add(ops.Function("negative"), values) if greatest else values
    return [values, Table(places.node, places.shape, "int64")]
