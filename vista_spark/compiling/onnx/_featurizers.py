"""Featurizers of ONNX-ML, on numbers and on texts of the input."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling.onnx._graph import Table, refuse
from vista_spark.compiling.onnx._nodes import operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vista_spark.compiling.onnx._graph import Graph


# Since this version of the domain, NaN equals NaN as a key.
_NAN_IS_A_KEY = 4


def _row(node: Any, values: Any, table: Table, dtype: str) -> np.ndarray[Any, Any]:
    array = np.asarray(values, dtype).reshape(-1)
    if len(array) not in {1, table.width}:
        raise refuse(node, f"{len(array)} numbers for {table.width} columns")
    return np.broadcast_to(array, (table.width,)).copy()


@operator("ai.onnx.ml.Scaler")
def lower_scaler(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower the scaler: minus an offset, times a scale, in float32."""
    table = graph.cast(graph.table(node, inputs[0]), "float32")
    table = graph.add(ops.Arithmetic("subtract", _row(node, attributes["offset"], table, "float32")), table)
    return graph.add(ops.Arithmetic("multiply", _row(node, attributes["scale"], table, "float32")), table)


@operator("ai.onnx.ml.Normalizer")
def lower_normalizer(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower the scaler of rows. ``MAX`` is the greatest number, not the greatest magnitude."""
    table, norm = graph.cast(graph.table(node, inputs[0]), "float32"), attributes.get("norm", "MAX")
    if len(table.shape) != 1:
        raise refuse(node, f"rows of shape {table.shape}")
    if norm == "MAX":
        table = graph.add(ops.Finite("as given", nan=False, who="ONNX's Normalizer", infinite=True), table)
        most = graph.add(ops.Reduce("max"), table, shape=(1,))
        scaled = graph.combine(node, "divide", table, most)
        return graph.add(ops.Choose(), most, scaled, table, like=table)
    if norm == "L1":
        return graph.add(ops.Normalise("l1", tiny=False), table)
    # As the runtime does: the root of the square's share, with the number's sign.
    square = graph.add(ops.Function("square"), table)
    total = graph.add(ops.Reduce("sum"), square, shape=(1,))
    root = graph.add(ops.Function("sqrt"), graph.combine(node, "divide", square, total))
    signed = graph.combine(node, "multiply", graph.add(ops.Function("sign"), table), root)
    return graph.add(ops.Choose(), total, signed, table, like=table)


@operator("ai.onnx.ml.Binarizer")
def lower_binarizer(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower the binarizer; its threshold is a float32."""
    finite = ops.Finite("as given", nan=False, who="ONNX's Binarizer", infinite=True)
    table = graph.add(finite, graph.table(node, inputs[0]))
    return graph.add(ops.Compare(float(attributes.get("threshold", 0.0))), table)


@operator("ai.onnx.ml.Imputer")
def lower_imputer(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower the replacement of missing values by numbers."""
    table = graph.table(node, inputs[0])
    whole = table.dtype == "int64"
    values = attributes["imputed_value_int64s" if whole else "imputed_value_floats"]
    missing = attributes.get("replaced_value_int64" if whole else "replaced_value_float", 0)
    return graph.add(ops.Impute(_row(node, values, table, "float64"), float(missing)), table)


@operator("ai.onnx.ml.ZipMap")
def lower_map(graph: Graph, node: Any, inputs: list[Any], _: dict[str, Any]) -> Table:
    """Lower a map of names to numbers as the numbers."""
    return graph.table(node, inputs[0])


@operator("ai.onnx.ml.OneHotEncoder")
def lower_one_hot(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower indicators of categories that are whole numbers."""
    categories, zeros = attributes.get("cats_int64s"), bool(attributes.get("zeros", 1))
    if not categories:
        if not isinstance(inputs[0], Table) or inputs[0].dtype != "string":
            raise refuse(node, "texts that are no column of the input")
        return marks_of(graph, node, inputs[0], attributes["cats_strings"], zeros=zeros)
    table = graph.table(node, inputs[0])
    if table.dtype.startswith("float"):
        size = graph.add(ops.Function("floor"), graph.add(ops.Function("abs"), graph.cast(table, "float64")))
        table = graph.add(ops.Combine("multiply"), graph.add(ops.Function("sign"), graph.cast(table, "float64")), size)
    apart = graph.take(table, np.repeat(np.arange(table.width), len(categories)).reshape(*table.shape, -1))
    known = np.broadcast_to(np.asarray(categories, np.float64), apart.shape)
    other = graph.constant(known, apart)
    marks = graph.add(ops.Combine("equal"), graph.cast(apart, "float64"), other)
    if not zeros:
        seen = graph.add(ops.Reduce("max", table.width), marks)
        marks = graph.add(
            ops.Reject("a category that OneHotEncoder does not know"), marks, graph.add(ops.Function("not"), seen)
        )
    return graph.cast(Table(marks.node, apart.shape, "float64"), "float32")


@operator("ai.onnx.ml.LabelEncoder")
def lower_encoder(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower a table of numbers, or of names that are known; texts of the input are refused."""
    table = inputs[0]
    keys, values, default = _pairs(node, attributes)
    if not isinstance(table, Table):
        raise refuse(node, "a constant input")
    if table.labels is not None:
        places = {key: place for place, key in enumerate(keys)}
        values = [values[places[label]] if label in places else default for label in table.labels.tolist()]
        plain = Table(table.node, table.shape, "int64", None, table.turned)
        return _valued(graph, plain, list(range(len(values))), values, default)
    if any(isinstance(key, str) for key in keys):
        if table.dtype != "string":
            raise refuse(node, "texts that are no column of the input")
        codes = codes_of(graph, node, table, keys)
        return _valued(graph, codes, list(range(len(keys))), values, default)
    if graph.opsets.get("ai.onnx.ml", 1) < _NAN_IS_A_KEY:
        pairs = [(key, value) for key, value in zip(keys, values, strict=True) if key == key]
        keys, values = [key for key, _ in pairs], [value for _, value in pairs]
    return _valued(graph, graph.table(node, table), keys, values, default)


def _pairs(node: Any, attributes: dict[str, Any]) -> tuple[list[Any], list[Any], Any]:
    fields: dict[str, list[Any]] = {}
    kind = ""
    for side in ("keys", "values"):
        for item in ("int64s", "floats", "strings", "tensor"):
            if f"{side}_{item}" in attributes:
                fields[side], kind = list(attributes[f"{side}_{item}"]), item
    if set(fields) != {"keys", "values"}:
        raise refuse(node, "neither keys nor values")
    plain = {"int64s": "default_int64", "floats": "default_float", "strings": "default_string"}.get(
        kind, "default_tensor"
    )
    default = attributes.get(plain, {"int64s": -1, "floats": -0.0, "strings": "_Unused"}.get(kind))
    if isinstance(default, np.ndarray):
        default = default.reshape(-1)[0]
    keys, values = (
        [item.item() if isinstance(item, np.generic) else item for item in fields[side]] for side in ("keys", "values")
    )
    if default is None:
        default = "_Unused" if isinstance(values[0], str) else -1 if isinstance(values[0], int) else -0.0
    return keys, values, default.item() if isinstance(default, np.generic) else default


def _valued(graph: Graph, table: Table, keys: list[Any], values: list[Any], default: Any) -> Table:
    """Look up numbers; the first entry of a repeated key counts."""
    first: dict[float, Any] = {}
    for key, value in zip(keys, values, strict=True):
        first.setdefault(float("nan") if isinstance(key, float) and math.isnan(key) else float(key), value)
    order = sorted(first, key=lambda key: (math.isnan(key), key))
    values = [first[key] for key in order]

    def looked_up(numbers: list[float], other: float) -> str:
        keys = {key: value for key, value in zip(order, numbers, strict=True) if not math.isnan(key)}
        missing = numbers[-1] if order and math.isnan(order[-1]) else other
        each = table.width
        operator = ops.CodeLookup.of_tables(range(each), [keys] * each, [other] * each, missing=[missing] * each)
        return graph.add(operator, graph.cast(table, "float64")).node

    if any(isinstance(value, str) for value in values):
        names = list(dict.fromkeys([*values, default]))
        numbers, missing = [float(names.index(value)) for value in values], float(names.index(default))
        return Table(looked_up(numbers, missing), table.shape, "int64", np.array(names), table.turned)
    fields = looked_up([float(value) for value in values], float(default))
    whole = Table(fields, table.shape, "int64", None, table.turned)
    return whole if all(isinstance(value, int) for value in values) else graph.cast(whole, "float32")


def codes_of(graph: Graph, node: Any, table: Table, keys: Sequence[str], *, unknown: bool = True) -> Table:
    """Look up each text among some keys; an unknown text gets their count.

    Parameters
    ----------
    unknown : bool
        Accept unknown texts. Otherwise their rows are bad, as rows with a missing text always are.
    """
    first = list(dict.fromkeys(keys))
    count, width = len(first), table.width
    codes = graph.build.add(ops.Encode(np.array(table.texts, np.int64), ((*first, None),) * width))
    places = np.array([*(list(keys).index(key) for key in first), len(keys) + 1, len(keys)], np.int64)
    values = graph.build.add(ops.Recode(np.tile(places, width)[:, None], np.full(width, count + 2, np.int64)), codes)
    checked = ops.Known(np.full(width, len(keys) + unknown, np.int64), f"ONNX's {node.op_type}")
    return Table(graph.build.add(checked, values), table.shape, "int64")


def marks_of(graph: Graph, node: Any, table: Table, keys: Sequence[str], *, zeros: bool) -> Table:
    """Add one column per key, which is 1 for rows with that text."""
    codes = codes_of(graph, node, table, keys, unknown=zeros)
    count = len(keys) + zeros
    marks = np.eye(count, len(keys), dtype=np.float32)
    sizes = np.full(table.width, count, np.int64)
    fields = graph.build.add(ops.Recode(np.tile(marks, (table.width, 1)), sizes), codes.node)
    return Table(fields, (*table.shape, len(keys)), "float32")
