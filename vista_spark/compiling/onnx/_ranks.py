"""ONNX operators that sort the numbers of a row, and gather by places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Choose, Finite, GatherElements, Linear, TopK
from vista_spark.compiling.onnx._graph import Table, refuse
from vista_spark.compiling.onnx._nodes import operator

if TYPE_CHECKING:
    from vista_spark.compiling.onnx._graph import Graph

__all__ = ["lower_elements", "lower_one_hot", "lower_running_sum", "lower_top"]


@operator("TopK")
def lower_top(graph: Graph, node: Any, given: list[Any], attributes: dict[str, Any]) -> list[Table]:
    """Lower the greatest or least numbers of a row, and their places. A row with NaN is bad: it has no order."""
    table, count = graph.table(node, given[0]), given[1] if len(given) > 1 else np.array(attributes.get("k"))
    if not isinstance(count, np.ndarray) or len(table.shape) != 1 or attributes.get("axis", -1) not in {1, -1}:
        raise refuse(node, f"axis={attributes.get('axis', -1)} of rows of shape {table.shape}")
    if table.shape != (1,):  # a number alone has an order
        table = graph.add(Finite("as given", nan=False, who="ONNX's TopK", infinite=True), table)
    own, largest = int(count.reshape(-1)[0]), bool(attributes.get("largest", 1))
    values = graph.add(TopK(own, largest, places=False), table, shape=(own,))
    places = graph.add(TopK(own, largest, places=True), table, shape=(own,))
    whole = graph.cast(places, "float64")
    return [values, Table(whole.node, whole.shape, "int64")]


@operator("GatherElements")
def lower_elements(graph: Graph, node: Any, given: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower what the places of a row name."""
    table, places = graph.table(node, given[0]), given[1]
    if isinstance(places, np.ndarray):
        raise refuse(node, "at places that are constants")
    places = graph.table(node, places)
    if len(table.shape) != 1 or len(places.shape) != 1 or attributes.get("axis", 0) not in {1, -1}:
        raise refuse(node, f"axis={attributes.get('axis', 0)} of rows of shape {table.shape}")
    return graph.add(GatherElements(), table, places, shape=places.shape)


@operator("CumSum")
def lower_running_sum(graph: Graph, node: Any, given: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower the sums of the columns so far."""
    table, axis = graph.table(node, given[0]), given[1]
    plain = isinstance(axis, np.ndarray) and int(axis.reshape(-1)[0]) in {1, -1}
    if not plain or len(table.shape) != 1 or attributes.get("exclusive") or attributes.get("reverse"):
        raise refuse(node, f"axis={axis} of rows of shape {table.shape}, or exclusive or reverse")
    table = graph.add(Finite("as given", nan=False, who="ONNX's CumSum"), table)
    dtype = np.float32 if table.dtype == "float32" else np.float64
    return graph.add(Linear(np.triu(np.ones((table.width,) * 2, dtype)), np.zeros(table.width, dtype)), table)


@operator("OneHot")
def lower_one_hot(graph: Graph, node: Any, given: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower indicators of places; what is no place has none."""
    table, depth, values = graph.table(node, given[0]), given[1], given[2]
    if not isinstance(depth, np.ndarray) or not isinstance(values, np.ndarray) or attributes.get("axis", -1) != -1:
        raise refuse(node, "of a depth or values that are no constants, or along another axis than the last")
    count, (off, on) = int(depth.reshape(-1)[0]), values.reshape(-1).tolist()
    shape = (*table.shape, count)
    apart = graph.take(table, np.repeat(np.arange(table.width), count).reshape(shape))
    places = np.broadcast_to(np.arange(count, dtype=np.float64), shape)
    wide = graph.cast(apart, "float64")
    near = graph.combine(node, "equal", wide, graph.constant(places, apart), "bool")
    far = graph.combine(node, "equal", wide, graph.constant(places - count, apart), "bool")
    marks = graph.combine(node, "or", near, far, "bool")
    dtype = values.dtype.type
    yes, no = (graph.constant(np.full(shape, one, dtype), apart) for one in (on, off))
    return graph.add(Choose(), marks, yes, no, like=yes)
