"""ONNX operators that compute number by number, and along an axis."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import (
    ArgMax,
    Choose,
    Clip,
    Combine,
    Finite,
    Function,
    Linear,
    LogSoftmax,
    Reduce,
    Sigmoid,
    Softmax,
)
from vista_spark.compiling.onnx._graph import Table, refuse
from vista_spark.compiling.onnx._nodes import operator

if TYPE_CHECKING:
    from vista_spark.compiling.onnx._graph import Graph

__all__ = [
    "lower_argument",
    "lower_cast",
    "lower_choice",
    "lower_clip",
    "lower_combination",
    "lower_function",
    "lower_gemm",
    "lower_product",
    "lower_reduction",
    "lower_softmax",
]

_FUNCTIONS = {
    "Abs": "abs",
    "Ceil": "ceil",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "Log": "log",
    "Neg": "negative",
    "Reciprocal": "reciprocal",
    "Relu": "relu",
    "Round": "round",
    "Sign": "sign",
    "Sin": "sin",
    "Sqrt": "sqrt",
    "Tanh": "tanh",
}
_COMBINATIONS = {
    "Add": "add",
    "Div": "divide",
    "Max": "maximum",
    "Min": "minimum",
    "Mul": "multiply",
    "Pow": "power",
    "Sub": "subtract",
    "Sum": "add",
}
_TRUTHS = {
    "And": "and",
    "Equal": "equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Or": "or",
}
_REDUCTIONS = {
    "ReduceL2": "sum_square",
    "ReduceLogSumExp": "logsumexp",
    "ReduceMax": "max",
    "ReduceMean": "mean",
    "ReduceMin": "min",
    "ReduceProd": "product",
    "ReduceSum": "sum",
    "ReduceSumSquare": "sum_square",
}
_FLOATS = ("float32", "float64")


@operator(*_FUNCTIONS, "Identity", "Dropout", "IsNaN", "Not", "Sigmoid")
def lower_function(graph: Graph, node: Any, given: list[Any], _: dict[str, Any]) -> Any:
    """Lower a function of each number."""
    if node.op_type in {"Identity", "Dropout"}:
        return given[0]
    table = graph.table(node, given[0])
    if node.op_type == "Sigmoid":
        return graph.add(Sigmoid(), table)
    if node.op_type in {"IsNaN", "Not"}:
        return graph.add(Function("is_nan" if node.op_type == "IsNaN" else "not"), table, dtype="bool")
    if table.dtype not in _FLOATS and node.op_type not in {"Abs", "Neg", "Relu", "Sign"}:
        raise refuse(node, f"of {table.dtype}")
    found = graph.add(Function(_FUNCTIONS[node.op_type]), table)
    if node.op_type != "Sign":
        return found
    return graph.add(Choose(), graph.add(Function("is_nan"), table), table, found)


@operator(*_COMBINATIONS, *_TRUTHS)
def lower_combination(graph: Graph, node: Any, given: list[Any], _: dict[str, Any]) -> Table:
    """Lower a function of two values, or of several one after the other."""
    if node.op_type in _TRUTHS:
        return graph.combine(node, _TRUTHS[node.op_type], given[0], given[1], "bool")
    if node.op_type == "Pow" and isinstance(given[1], np.ndarray) and isinstance(given[0], Table):
        given = [given[0], given[1].astype(given[0].dtype if given[0].dtype in _FLOATS else np.int64)]
    kind = _COMBINATIONS[node.op_type]
    if kind in {"divide", "power"} and any(isinstance(one, Table) and one.dtype not in _FLOATS for one in given):
        raise refuse(node, "of whole numbers")
    if len(given) == 1:
        return graph.table(node, given[0])
    found: Table = reduce(lambda left, right: graph.combine(node, kind, left, right), given)
    return found


@operator("Where")
def lower_choice(graph: Graph, node: Any, given: list[Any], _: dict[str, Any]) -> Table:
    """Lower a choice between two values."""
    condition, x, y = graph.widened(node, *given)
    return graph.add(Choose(), condition, x, y, like=x)


@operator("Clip")
def lower_clip(graph: Graph, node: Any, given: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower bounds, which have to be constants."""
    bounds = [attributes.get("min"), attributes.get("max"), *given[1:]]
    if any(isinstance(one, Table) for one in bounds):
        raise refuse(node, "bounds that are no constants")
    low = bounds[2] if len(bounds) > 2 and bounds[2] is not None else bounds[0]  # min and max
    high = bounds[3] if len(bounds) > 3 and bounds[3] is not None else bounds[1]
    table = graph.table(node, given[0])
    return graph.add(Clip(-np.inf if low is None else float(low), np.inf if high is None else float(high)), table)


@operator("Cast")
def lower_cast(graph: Graph, node: Any, given: list[Any], attributes: dict[str, Any]) -> Any:
    """Lower a change of type; to whole numbers, the fraction is cut off."""
    from onnx import TensorProto  # an optional package

    to, value = attributes["to"], given[0]
    if isinstance(value, Table) and to == TensorProto.STRING and (value.labels is not None or value.dtype == "string"):
        return value
    table = graph.table(node, value, turned=True)
    if to in {TensorProto.FLOAT, TensorProto.DOUBLE}:
        return graph.cast(table, "float32" if to == TensorProto.FLOAT else "float64")
    if to in {TensorProto.INT64, TensorProto.INT32}:
        wide = graph.cast(table, "float64")
        if table.dtype in _FLOATS:
            size = graph.add(Function("floor"), graph.add(Function("abs"), wide))
            wide = graph.add(Combine("multiply"), graph.add(Function("sign"), wide), size)
        return graph.add(Function("abs"), wide, dtype="int64") if table.dtype == "bool" else _as(wide, "int64")
    if to == TensorProto.BOOL:
        return graph.add(Function("not"), graph.add(Function("not"), table), dtype="bool")
    raise refuse(node, f"to {TensorProto.DataType.Name(to)}")


def _as(table: Table, dtype: str) -> Table:
    return Table(table.node, table.shape, dtype, table.labels, table.turned)


@operator("MatMul")
def lower_product(graph: Graph, node: Any, given: list[Any], _: dict[str, Any]) -> Table:
    """Lower a product with a constant matrix."""
    return _linear(graph, node, given[0], given[1], None)


@operator("Gemm")
def lower_gemm(graph: Graph, node: Any, given: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower a product with a constant matrix, and a bias."""
    if attributes.get("transA"):
        raise refuse(node, "transA=1")
    weights = given[1]
    if isinstance(weights, np.ndarray) and attributes.get("transB"):
        weights = weights.T
    if isinstance(weights, np.ndarray):
        weights = weights * weights.dtype.type(attributes.get("alpha", 1.0))
    bias = given[2] if len(given) > 2 else None  # A, B and C
    if isinstance(bias, np.ndarray):
        bias = bias * bias.dtype.type(attributes.get("beta", 1.0))
    if not isinstance(bias, Table):
        return _linear(graph, node, given[0], weights, bias)
    product = _linear(graph, node, given[0], weights, None)
    return graph.combine(node, "add", product, graph.combine(node, "multiply", bias, _scalar(bias, attributes)))


def _scalar(table: Table, attributes: dict[str, Any]) -> Any:
    return np.asarray(attributes.get("beta", 1.0), table.dtype)


def _linear(graph: Graph, node: Any, value: Any, weights: Any, bias: Any) -> Table:
    if not isinstance(weights, np.ndarray) or weights.ndim not in {1, 2}:
        raise refuse(node, "the right matrix is no constant")
    table = graph.table(node, value)
    if len(table.shape) != 1:
        raise refuse(node, f"rows of shape {table.shape}")
    matrix = weights.reshape(len(weights), -1)
    shift = np.zeros(matrix.shape[1], matrix.dtype) if bias is None else np.broadcast_to(bias, (1, matrix.shape[1]))[0]
    shape = () if weights.ndim == 1 else (matrix.shape[1],)
    return graph.add(Linear(matrix.copy(), shift.copy()), table, shape=shape)


def _axes(node: Any, given: list[Any], attributes: dict[str, Any], table: Table) -> list[int]:
    axes = attributes.get("axes")
    if axes is None and len(given) > 1 and given[1] is not None:
        if not isinstance(given[1], np.ndarray):
            raise refuse(node, "axes that are no constants")
        axes = given[1].reshape(-1).tolist()
    if "axis" in attributes:
        axes = [attributes["axis"]]
    rank = len(table.shape) + 1
    if not axes:
        raise refuse(node, "over all axes")
    own = sorted(axis % rank for axis in axes)
    if own[0] == 0:
        raise refuse(node, f"axes {axes}, with that of the rows")
    return own


@operator(*_REDUCTIONS, "ReduceL1")
def lower_reduction(graph: Graph, node: Any, given: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower a sum, or the like, along axes."""
    table = graph.table(node, given[0])
    if table.dtype not in _FLOATS and node.op_type not in {"ReduceMax", "ReduceMin", "ReduceSum"}:
        raise refuse(node, f"of {table.dtype}")
    axes = _axes(node, given, attributes, table)
    if node.op_type in {"ReduceMax", "ReduceMin"}:
        # Which of NaN and a number is greater is left to the runtime, which says so by their places.
        table = graph.add(Finite("as given", nan=False, who=f"ONNX's {node.op_type}", infinite=True), table)
    places = graph.places(table)
    last = np.moveaxis(places, axes, range(-len(axes), 0))
    kept = last.shape[1 : last.ndim - len(axes)]
    count = int(np.prod(kept, dtype=np.int64))
    flat = graph.take(table, last.reshape(-1))
    if node.op_type == "ReduceL1":
        flat = graph.add(Function("abs"), flat)
    kind = "sum" if node.op_type == "ReduceL1" else _REDUCTIONS[node.op_type]
    found = graph.add(Reduce(kind, count), flat)
    if node.op_type == "ReduceL2":
        found = graph.add(Function("sqrt"), found)
    keep = attributes.get("keepdims", 1)
    shape = tuple(1 if axis + 1 in axes else size for axis, size in enumerate(table.shape)) if keep else kept
    return Table(found.node, shape, table.dtype)


@operator("Softmax", "LogSoftmax")
def lower_softmax(graph: Graph, node: Any, given: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower a softmax of rows."""
    table = graph.table(node, given[0])
    if len(table.shape) != 1 or attributes.get("axis", -1) not in {1, -1}:
        raise refuse(node, f"axis={attributes.get('axis', -1)} of rows of shape {table.shape}")
    return graph.add(Softmax() if node.op_type == "Softmax" else LogSoftmax(), table)


@operator("ArgMax", "ArgMin")
def lower_argument(graph: Graph, node: Any, given: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower the place of the greatest or least number of a row."""
    table = graph.table(node, given[0])
    if attributes.get("axis", 0) not in {1, -1} or len(table.shape) != 1 or attributes.get("select_last_index"):
        raise refuse(node, f"axis={attributes.get('axis', 0)} of rows of shape {table.shape}")
    if node.op_type == "ArgMin":
        table = graph.add(Function("negative"), table)
    place = graph.cast(graph.add(ArgMax("stays first"), table), "float64")
    return Table(place.node, (1,) if attributes.get("keepdims", 1) else (), "int64")
