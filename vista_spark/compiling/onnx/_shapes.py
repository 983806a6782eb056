"""Reshaping and gathering operators of ONNX, which become selections of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import CodeLookup, Concatenate
from vista_spark.compiling.onnx._graph import Dimensions, Table, refuse
from vista_spark.compiling.onnx._members import Members, members_of
from vista_spark.compiling.onnx._nodes import operator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vista_spark.compiling.onnx._graph import Graph

__all__ = ["lookup"]


def _constant(node: Any, value: Any, what: str) -> list[int]:
    if not isinstance(value, np.ndarray):
        raise refuse(node, f"computed {what}")
    return [int(value) for value in value.reshape(-1)]


def _any(graph: Graph, node: Any, value: Any) -> Table:
    """Return a table, which may contain texts or be a single row."""
    if isinstance(value, Table) and (value.labels is not None or value.turned):
        return value
    return graph.table(node, value, texts=True)


def _moved(graph: Graph, table: Table, places: NDArray[np.int64]) -> Table:
    moved = graph.take(table, places[0])
    return Table(moved.node, moved.shape, table.dtype, table.labels, texts=moved.texts)


@operator("Concat", "ai.onnx.ml.FeatureVectorizer")
def lower_concat(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Table | Members:
    """Lower a concatenation of columns, or of members of an ensemble."""
    if any(isinstance(value, Members) for value in inputs):
        return members_of(node, inputs)
    tables = [graph.table(node, value, texts=True) for value in inputs]
    if node.op_type == "FeatureVectorizer":
        tables = [graph.cast(Table(table.node, (table.width,), table.dtype), "float32") for table in tables]
    rank = len(tables[0].shape) + 1
    axis = attributes.get("axis", 1) % rank
    if axis == 0 or any(len(table.shape) + 1 != rank for table in tables):
        raise refuse(node, f"axis={attributes.get('axis')} of rows of shapes {[table.shape for table in tables]}")
    if len({table.dtype for table in tables}) > 1:
        raise refuse(node, "inputs of several types")
    starts = np.cumsum([0, *(table.width for table in tables)])
    parts = [graph.places(table) + start for table, start in zip(tables, starts, strict=False)]
    places = np.concatenate(parts, axis=axis)
    if tables[0].texts is not None:
        columns = tuple(column for table in tables for column in table.texts or ())
        return _moved(graph, Table("", (int(starts[-1]),), tables[0].dtype, texts=columns), places)
    joined = graph.add(Concatenate(), *tables) if len(tables) > 1 else tables[0]
    whole = Table(joined.node, (int(starts[-1]),), tables[0].dtype)
    return _moved(graph, whole, places)


@operator("Reshape", "Flatten")
def lower_reshape(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Table | Members:
    """Lower a reshape of the rows."""
    table = _any(graph, node, inputs[0])
    if node.op_type == "Flatten":
        if attributes.get("axis", 1) != 1:
            raise refuse(node, f"axis={attributes['axis']}")
        wanted = [-1, table.width]
    else:
        wanted = _constant(node, inputs[1], "shapes") if len(inputs) > 1 else list(attributes["shape"])
    if attributes.get("allowzero"):
        raise refuse(node, "allowzero=1")
    if wanted in ([1, -1, table.width], [1, 0, table.width]) and table.texts is None and len(table.shape) == 1:
        return Members((table,))
    sizes = [table.shape[place - 1] if size == 0 and place else size for place, size in enumerate(wanted)]
    inner = sizes[1:]
    if sizes[0] == 0 and -1 in inner:
        known = -int(np.prod(inner))
        inner = [table.width // known if size == -1 and known else size for size in inner]
    elif sizes[0] not in {-1, 0}:
        raise refuse(node, f"shape={wanted}, which fixes the number of rows")
    if int(np.prod(inner, dtype=np.int64)) != table.width or -1 in inner:
        raise refuse(node, f"shape={wanted} for rows of shape {table.shape}")
    return Table(table.node, tuple(inner), table.dtype, table.labels, texts=table.texts)


@operator("Squeeze")
def lower_squeeze(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower the removal of axes of length 1."""
    table = _any(graph, node, inputs[0])
    axes = attributes.get("axes") or (_constant(node, inputs[1], "axes") if len(inputs) > 1 else None)
    if axes is None or any(axis % (len(table.shape) + 1) == 0 for axis in axes):
        raise refuse(node, f"axes={axes}, which may include the rows")
    return _moved(graph, table, np.squeeze(graph.places(table), axis=tuple(axes)))


@operator("Unsqueeze")
def lower_unsqueeze(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower the insertion of axes of length 1."""
    table = _any(graph, node, inputs[0])
    axes = attributes.get("axes") or _constant(node, inputs[1], "axes")
    if any(axis % (len(table.shape) + 1 + len(axes)) == 0 for axis in axes):
        raise refuse(node, f"axes={axes}, before the rows")
    return _moved(graph, table, np.expand_dims(graph.places(table), axis=tuple(axes)))


@operator("Transpose")
def lower_transpose(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower a permutation of axes that keeps the rows first."""
    table = graph.table(node, inputs[0], texts=True)
    order = attributes.get("perm") or list(range(len(table.shape) + 1))[::-1]
    if order[0] != 0:
        raise refuse(node, f"perm={order}, which moves the rows")
    return _moved(graph, table, np.transpose(graph.places(table), order))


@operator("Slice")
def lower_slice(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower ranges of columns."""
    table = graph.table(node, inputs[0], texts=True)
    if len(inputs) > 1:
        lists = [None if value is None else _constant(node, value, "ranges") for value in inputs[1:]]
        lists += [None] * (4 - len(lists))
        starts, ends, axes, steps = lists
    else:
        starts, ends, axes, steps = attributes["starts"], attributes["ends"], attributes.get("axes"), None
    starts, ends = starts or [], ends or []
    places = graph.places(table)
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = (axes[place] if axes else place) % places.ndim
        if axis == 0:
            raise refuse(node, "the axis of the rows")
        step = steps[place] if steps else 1
        stop = None if end < -places.shape[axis] else end
        places = places[(slice(None),) * axis + (slice(start, stop, step),)]
    return _moved(graph, table, places)


@operator("Split")
def lower_split(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> list[Table]:
    """Lower a split into groups of columns."""
    table = graph.table(node, inputs[0], texts=True)
    axis = attributes.get("axis", 0) % (len(table.shape) + 1)
    if axis == 0:
        raise refuse(node, "the axis of the rows")
    sizes = attributes.get("split") or (_constant(node, inputs[1], "sizes") if len(inputs) > 1 else None)
    size = table.shape[axis - 1]
    each = -(-size // len(node.output))
    sizes = sizes or [min(each, size - start) for start in range(0, size, each)]
    parts = np.split(graph.places(table), np.cumsum(sizes)[:-1], axis=axis)
    return [_moved(graph, table, part) for part in parts]


@operator("Gather")
def lower_gather(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower a selection of columns, or a lookup in a constant table."""
    values, places = inputs
    axis = attributes.get("axis", 0)
    if isinstance(values, np.ndarray):
        if values.ndim != 1 or axis not in {0, -1}:
            raise refuse(node, f"constants of shape {values.shape}")
        return lookup(graph, node, values, graph.table(node, places))
    table = graph.table(node, values, texts=True)
    if not isinstance(places, np.ndarray) or axis % (len(table.shape) + 1) == 0:
        raise refuse(node, "the axis of the rows or computed indices")
    return _moved(graph, table, np.take(graph.places(table), places, axis=axis))


@operator("ai.onnx.ml.ArrayFeatureExtractor")
def lower_extractor(graph: Graph, node: Any, inputs: list[Any], _: dict[str, Any]) -> Table:
    """Lower a selection along the last axis, or a lookup in a constant table."""
    values, places = inputs
    if isinstance(values, np.ndarray):
        if values.size != values.shape[-1]:
            raise refuse(node, f"constants of shape {values.shape}")
        asked = graph.table(node, places)
        result = lookup(graph, node, values.reshape(-1), asked)
        return Table(result.node, asked.shape if asked.width > 1 else (), result.dtype, result.labels, turned=True)
    table = graph.table(node, values, texts=True)
    if not isinstance(places, np.ndarray) or not table.shape:
        raise refuse(node, "the axis of the rows or computed indices")
    return _moved(graph, table, np.take(graph.places(table), places.reshape(-1).astype(np.int64), axis=-1))


def lookup(graph: Graph, node: Any, values: NDArray[Any], places: Table) -> Table:
    """Look up constants by index: numbers, or names of the indices."""
    if values.dtype.kind in "OUS":
        names = np.array([value.decode() if isinstance(value, bytes) else str(value) for value in values])
        return Table(_at(graph, places, np.arange(len(names)), 0.0).node, places.shape, "int64", names)
    result = _at(graph, places, values, float("nan"))
    if values.dtype.kind in "iub":
        return Table(result.node, places.shape, "int64")
    if values.dtype.name not in {"float32", "float64"}:
        raise refuse(node, f"constants of type {values.dtype}")
    return graph.cast(Table(result.node, places.shape, "float64"), values.dtype.name)


def _at(graph: Graph, places: Table, values: NDArray[Any], other: float) -> Table:
    table = {float(place): value for place, value in enumerate(values.astype(np.float64).tolist())}
    each = places.width
    result = CodeLookup.of_tables(range(each), [table] * each, [other] * each, missing=[other] * each)
    return graph.add(result, graph.cast(places, "float64"))


@operator("Shape")
def lower_shape(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Dimensions:
    """Lower the shape of a table, for operators that create a table of that shape."""
    if attributes.get("start") or attributes.get("end"):
        raise refuse(node, "part of the axes")
    return Dimensions(graph.table(node, inputs[0]).shape)


@operator("ConstantOfShape")
def lower_fill(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower a table filled with one number."""
    if not isinstance(inputs[0], Dimensions):
        raise refuse(node, "a computed shape")
    value = attributes.get("value", np.zeros(1, np.float32)).reshape(-1)[0]
    return graph.constant(np.full(inputs[0].shape, value), Table("input", (), "float64"))
