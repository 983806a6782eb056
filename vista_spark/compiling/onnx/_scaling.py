"""ONNX-ML's featurizers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import (
    Arithmetic,
    Choose,
    CodeLookup,
    Combine,
    Compare,
    Distances,
    Finite,
    Function,
    Impute,
    Normalise,
    Reduce,
    Reject,
)
from vista_spark.compiling.onnx._graph import Table, refuse
from vista_spark.compiling.onnx._nodes import operator
from vista_spark.compiling.onnx._texts import codes_of, marks_of

if TYPE_CHECKING:
    from vista_spark.compiling.onnx._graph import Graph

__all__ = [
    "lower_binarizer",
    "lower_distances",
    "lower_encoder",
    "lower_imputer",
    "lower_map",
    "lower_normalizer",
    "lower_one_hot",
    "lower_scaler",
]


# From this version of the domain on, NaN is found.
_NAN_IS_A_KEY = 4


def _row(node: Any, values: Any, table: Table, dtype: str) -> np.ndarray[Any, Any]:
    array = np.asarray(values, dtype).reshape(-1)
    if len(array) not in {1, table.width}:
        raise refuse(node, f"{len(array)} numbers for {table.width} columns")
    return np.broadcast_to(array, (table.width,)).copy()


@operator("ai.onnx.ml.Scaler")
def lower_scaler(graph: Graph, node: Any, given: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower the scaler: minus an offset, times a scale, in float32."""
    table = graph.cast(graph.table(node, given[0]), "float32")
    table = graph.add(Arithmetic("subtract", _row(node, attributes["offset"], table, "float32")), table)
    return graph.add(Arithmetic("multiply", _row(node, attributes["scale"], table, "float32")), table)


@operator("ai.onnx.ml.Normalizer")
def lower_normalizer(graph: Graph, node: Any, given: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower the scaler of rows. ``MAX`` is the greatest number, not the greatest magnitude."""
    table, norm = graph.cast(graph.table(node, given[0]), "float32"), attributes.get("norm", "MAX")
    if len(table.shape) != 1:
        raise refuse(node, f"rows of shape {table.shape}")
    if norm == "MAX":
        table = graph.add(Finite("as given", nan=False, who="ONNX's Normalizer", infinite=True), table)
        most = graph.add(Reduce("max"), table, shape=(1,))
        scaled = graph.combine(node, "divide", table, most)
        return graph.add(Choose(), most, scaled, table, like=table)
    if norm == "L1":
        return graph.add(Normalise("l1", tiny=False), table)
    # As the runtime does: the root of the square's share, with the number's sign.
    square = graph.add(Function("square"), table)
    total = graph.add(Reduce("sum"), square, shape=(1,))
    root = graph.add(Function("sqrt"), graph.combine(node, "divide", square, total))
    signed = graph.combine(node, "multiply", graph.add(Function("sign"), table), root)
    return graph.add(Choose(), total, signed, table, like=table)


@operator("ai.onnx.ml.Binarizer")
def lower_binarizer(graph: Graph, node: Any, given: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower the threshold, which is a number of float32."""
    held = graph.add(Finite("as given", nan=False, who="ONNX's Binarizer", infinite=True), graph.table(node, given[0]))
    return graph.add(Compare(float(attributes.get("threshold", 0.0))), held)


@operator("ai.onnx.ml.Imputer")
def lower_imputer(graph: Graph, node: Any, given: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower numbers for what is missing."""
    table = graph.table(node, given[0])
    whole = table.dtype == "int64"
    values = attributes["imputed_value_int64s" if whole else "imputed_value_floats"]
    missing = attributes.get("replaced_value_int64" if whole else "replaced_value_float", 0)
    return graph.add(Impute(_row(node, values, table, "float64"), float(missing)), table)


@operator("com.microsoft.CDist")
def lower_distances(graph: Graph, node: Any, given: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower distances to points that are constants."""
    if not isinstance(given[1], np.ndarray):
        raise refuse(node, "points that are no constants")
    table = graph.table(node, given[0])
    metric = attributes.get("metric", "sqeuclidean")
    return graph.add(Distances(given[1].copy(), metric), table, shape=(len(given[1]),))


@operator("ai.onnx.ml.ZipMap")
def lower_map(graph: Graph, node: Any, given: list[Any], _: dict[str, Any]) -> Table:
    """Lower a map of names to numbers as the numbers."""
    return graph.table(node, given[0])


@operator("ai.onnx.ml.OneHotEncoder")
def lower_one_hot(graph: Graph, node: Any, given: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower indicators of categories that are whole numbers."""
    categories, zeros = attributes.get("cats_int64s"), bool(attributes.get("zeros", 1))
    if not categories:
        if not isinstance(given[0], Table) or given[0].dtype != "string":
            raise refuse(node, "categories that are texts, and no texts of the input")
        return marks_of(graph, node, given[0], attributes["cats_strings"], zeros=zeros)
    table = graph.table(node, given[0])
    if table.dtype.startswith("float"):
        size = graph.add(Function("floor"), graph.add(Function("abs"), graph.cast(table, "float64")))
        table = graph.add(Combine("multiply"), graph.add(Function("sign"), graph.cast(table, "float64")), size)
    apart = graph.take(table, np.repeat(np.arange(table.width), len(categories)).reshape(*table.shape, -1))
    known = np.broadcast_to(np.asarray(categories, np.float64), apart.shape)
    other = graph.constant(known, apart)
    marks = graph.add(Combine("equal"), graph.cast(apart, "float64"), other)
    if not zeros:
        seen = graph.add(Reduce("max", table.width), marks)
        marks = graph.add(
            Reject("a category that OneHotEncoder does not know"), marks, graph.add(Function("not"), seen)
        )
    return graph.cast(Table(marks.node, apart.shape, "float64"), "float32")


@operator("ai.onnx.ml.LabelEncoder", "ai.onnx.ml.CategoryMapper")
def lower_encoder(graph: Graph, node: Any, given: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower a table of numbers, or of names that are known; texts of the input are refused."""
    table = given[0]
    texts = isinstance(table, Table) and (table.dtype == "string" or table.labels is not None)
    keys, values, default = _pairs(node, attributes, turned=texts)
    if not isinstance(table, Table):
        raise refuse(node, "of constants")
    if table.labels is not None:
        places = {key: place for place, key in enumerate(keys)}
        own = [values[places[label]] if label in places else default for label in table.labels.tolist()]
        plain = Table(table.node, table.shape, "int64", None, table.turned)
        return _valued(graph, plain, list(range(len(own))), own, default)
    if any(isinstance(key, str) for key in keys):
        if table.dtype != "string":
            raise refuse(node, "keys that are texts, and no texts of the input")
        codes = codes_of(graph, node, table, keys)
        return _valued(graph, codes, list(range(len(keys))), values, default)
    if graph.opsets.get("ai.onnx.ml", 1) < _NAN_IS_A_KEY:
        pairs = [(key, value) for key, value in zip(keys, values, strict=True) if key == key]  # NaN
        keys, values = [key for key, _ in pairs], [value for _, value in pairs]
    return _valued(graph, graph.table(node, table), keys, values, default)


def _pairs(node: Any, attributes: dict[str, Any], *, turned: bool) -> tuple[list[Any], list[Any], Any]:
    if node.op_type == "CategoryMapper":
        if turned:
            return attributes["cats_strings"], attributes["cats_int64s"], attributes.get("default_int64", -1)
        return attributes["cats_int64s"], attributes["cats_strings"], attributes.get("default_string", "_Unused")
    found: dict[str, list[Any]] = {}
    kind = ""
    for side in ("keys", "values"):
        for one in ("int64s", "floats", "strings", "tensor"):
            if f"{side}_{one}" in attributes:
                found[side], kind = list(attributes[f"{side}_{one}"]), one
    if set(found) != {"keys", "values"}:
        raise refuse(node, "without keys and values")
    plain = {"int64s": "default_int64", "floats": "default_float", "strings": "default_string"}.get(
        kind, "default_tensor"
    )
    default = attributes.get(plain, {"int64s": -1, "floats": -0.0, "strings": "_Unused"}.get(kind))
    if isinstance(default, np.ndarray):
        default = default.reshape(-1)[0]
    own = [[one.item() if isinstance(one, np.generic) else one for one in found[side]] for side in ("keys", "values")]
    if default is None:
        default = "_Unused" if isinstance(own[1][0], str) else -1 if isinstance(own[1][0], int) else -0.0
    return own[0], own[1], default.item() if isinstance(default, np.generic) else default


def _valued(graph: Graph, table: Table, keys: list[Any], values: list[Any], default: Any) -> Table:
    """Look numbers up: of a key that comes twice the first counts."""
    first: dict[float, Any] = {}
    for key, value in zip(keys, values, strict=True):
        first.setdefault(float("nan") if isinstance(key, float) and math.isnan(key) else float(key), value)
    order = sorted(first, key=lambda key: (math.isnan(key), key))
    own = [first[key] for key in order]

    def looked_up(numbers: list[float], other: float) -> str:
        keys = {key: value for key, value in zip(order, numbers, strict=True) if not math.isnan(key)}
        missing = numbers[-1] if order and math.isnan(order[-1]) else other
        each = table.width
        operator = CodeLookup.of_tables(range(each), [keys] * each, [other] * each, missing=[missing] * each)
        return graph.add(operator, graph.cast(table, "float64")).node

    if any(isinstance(value, str) for value in values):
        names = list(dict.fromkeys([*own, default]))
        numbers, missing = [float(names.index(value)) for value in own], float(names.index(default))
        return Table(looked_up(numbers, missing), table.shape, "int64", np.array(names), table.turned)
    found = looked_up([float(value) for value in own], float(default))
    whole = Table(found, table.shape, "int64", None, table.turned)
    return whole if all(isinstance(value, int) for value in values) else graph.cast(whole, "float32")
