"""Element-wise operators, reductions and matrix products of ONNX."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling.onnx._graph import Table, refuse
from vista_spark.compiling.onnx._members import Members, reduced
from vista_spark.compiling.onnx._nodes import operator

if TYPE_CHECKING:
    from vista_spark.compiling.onnx._graph import Graph

_FUNCTIONS = {
    "Abs": "abs",
    "Exp": "exp",
    "Floor": "floor",
    "Log": "log",
    "Neg": "negative",
    "Reciprocal": "reciprocal",
    "Relu": "relu",
    "Sign": "sign",
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
    "ReduceLogSumExp": "logsumexp",
    "ReduceMean": "sum",
    "ReduceProd": "product",
    "ReduceSum": "sum",
    "ReduceSumSquare": "sum_square",
}
_FLOATS = ("float32", "float64")


@operator(*_FUNCTIONS, "Identity", "IsNaN", "Not", "Sigmoid")
def lower_function(graph: Graph, node: Any, inputs: list[Any], _: dict[str, Any]) -> Any:
    """Lower a function of each number."""
    if node.op_type == "Identity":
        return inputs[0]
    table = graph.table(node, inputs[0])
    if node.op_type == "Sigmoid":
        return graph.add(ops.Sigmoid(), table)
    if node.op_type in {"IsNaN", "Not"}:
        return graph.add(ops.Function("is_nan" if node.op_type == "IsNaN" else "not"), table, dtype="bool")
    if table.dtype not in _FLOATS and node.op_type not in {"Abs", "Neg", "Relu", "Sign"}:
        raise refuse(node, f"an input of type {table.dtype}")
    result = graph.add(ops.Function(_FUNCTIONS[node.op_type]), table)
    if node.op_type != "Sign":
        return result
    return graph.add(ops.Choose(), graph.add(ops.Function("is_nan"), table), table, result)


@operator(*_COMBINATIONS, *_TRUTHS)
def lower_combination(graph: Graph, node: Any, inputs: list[Any], _: dict[str, Any]) -> Table:
    """Lower a function of two values, or of several one after the other."""
    if node.op_type in _TRUTHS:
        return graph.combine(node, _TRUTHS[node.op_type], inputs[0], inputs[1], "bool")
    if node.op_type == "Pow" and isinstance(inputs[1], np.ndarray) and isinstance(inputs[0], Table):
        inputs = [inputs[0], inputs[1].astype(inputs[0].dtype if inputs[0].dtype in _FLOATS else np.int64)]
    kind = _COMBINATIONS[node.op_type]
    if kind in {"divide", "power"} and any(isinstance(value, Table) and value.dtype not in _FLOATS for value in inputs):
        raise refuse(node, "integers")
    if len(inputs) == 1:
        return graph.table(node, inputs[0])
    result: Table = reduce(lambda left, right: graph.combine(node, kind, left, right), inputs)
    return result


@operator("Where")
def lower_choice(graph: Graph, node: Any, inputs: list[Any], _: dict[str, Any]) -> Table:
    """Lower a choice between two values."""
    condition, x, y = graph.widened(node, *inputs)
    return graph.add(ops.Choose(), condition, x, y, like=x)


@operator("Clip")
def lower_clip(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower bounds, which have to be constants."""
    bounds = [attributes.get("min"), attributes.get("max"), *inputs[1:]]
    if any(isinstance(value, Table) for value in bounds):
        raise refuse(node, "computed bounds")
    low = bounds[2] if len(bounds) > 2 and bounds[2] is not None else bounds[0]
    high = bounds[3] if len(bounds) > 3 and bounds[3] is not None else bounds[1]
    table = graph.table(node, inputs[0])
    return graph.add(ops.Clip(-np.inf if low is None else float(low), np.inf if high is None else float(high)), table)


@operator("Cast")
def lower_cast(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    """Lower a change of type; to whole numbers, the fraction is cut off."""
    from onnx import TensorProto

    to, value = attributes["to"], inputs[0]
    if isinstance(value, Table) and to == TensorProto.STRING and (value.labels is not None or value.dtype == "string"):
        return value
    table = graph.table(node, value, turned=True)
    if to in {TensorProto.FLOAT, TensorProto.DOUBLE}:
        return graph.cast(table, "float32" if to == TensorProto.FLOAT else "float64")
    if to in {TensorProto.INT64, TensorProto.INT32}:
        wide = graph.cast(table, "float64")
        if table.dtype in _FLOATS:
            size = graph.add(ops.Function("floor"), graph.add(ops.Function("abs"), wide))
            wide = graph.add(ops.Combine("multiply"), graph.add(ops.Function("sign"), wide), size)
        return graph.add(ops.Function("abs"), wide, dtype="int64") if table.dtype == "bool" else _as(wide, "int64")
    if to == TensorProto.BOOL:
        return graph.add(ops.Function("not"), graph.add(ops.Function("not"), table), dtype="bool")
    raise refuse(node, f"the output type {TensorProto.DataType.Name(to)}")


def _as(table: Table, dtype: str) -> Table:
    return Table(table.node, table.shape, dtype, table.labels, table.turned)


@operator("MatMul")
def lower_product(graph: Graph, node: Any, inputs: list[Any], _: dict[str, Any]) -> Table:
    """Lower a product with a constant matrix."""
    return _linear(graph, node, inputs[0], inputs[1], None)


@operator("Gemm")
def lower_gemm(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower a product with a constant matrix, and a bias."""
    if attributes.get("transA"):
        raise refuse(node, "transA=1")
    weights = inputs[1]
    if isinstance(weights, np.ndarray) and attributes.get("transB"):
        weights = weights.T
    if isinstance(weights, np.ndarray):
        weights = weights * weights.dtype.type(attributes.get("alpha", 1.0))
    bias = inputs[2] if len(inputs) > 2 else None
    if isinstance(bias, np.ndarray):
        bias = bias * bias.dtype.type(attributes.get("beta", 1.0))
    if not isinstance(bias, Table):
        return _linear(graph, node, inputs[0], weights, bias)
    product = _linear(graph, node, inputs[0], weights, None)
    return graph.combine(node, "add", product, graph.combine(node, "multiply", bias, _scalar(bias, attributes)))


def _scalar(table: Table, attributes: dict[str, Any]) -> Any:
    return np.asarray(attributes.get("beta", 1.0), table.dtype)


def _linear(graph: Graph, node: Any, value: Any, weights: Any, bias: Any) -> Table:
    if not isinstance(weights, np.ndarray) or weights.ndim not in {1, 2}:
        raise refuse(node, "a computed right matrix")
    table = graph.table(node, value)
    if len(table.shape) != 1:
        raise refuse(node, f"rows of shape {table.shape}")
    matrix = weights.reshape(len(weights), -1)
    shift = np.zeros(matrix.shape[1], matrix.dtype) if bias is None else np.broadcast_to(bias, (1, matrix.shape[1]))[0]
    shape = () if weights.ndim == 1 else (matrix.shape[1],)
    return graph.add(ops.Linear(matrix.copy(), shift.copy()), table, shape=shape)


def _stated_axes(node: Any, inputs: list[Any], attributes: dict[str, Any]) -> list[int] | None:
    axes: list[int] | None = attributes.get("axes")
    if axes is None and len(inputs) > 1 and inputs[1] is not None:
        if not isinstance(inputs[1], np.ndarray):
            raise refuse(node, "computed axes")
        axes = inputs[1].reshape(-1).tolist()
    return [attributes["axis"]] if "axis" in attributes else axes


def _axes(node: Any, inputs: list[Any], attributes: dict[str, Any], table: Table) -> list[int]:
    axes = _stated_axes(node, inputs, attributes)
    rank = len(table.shape) + 1
    if not axes:
        raise refuse(node, "all axes")
    places = sorted(axis % rank for axis in axes)
    if places[0] == 0:
        raise refuse(node, f"axes={axes}, which include the rows")
    return places


@operator(*_REDUCTIONS)
def lower_reduction(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower a sum, or the like, along axes."""
    if isinstance(inputs[0], Members):
        axes = _stated_axes(node, inputs, attributes)
        return reduced(graph, node, inputs[0], axes, keeps=bool(attributes.get("keepdims", 1)))
    table = graph.table(node, inputs[0])
    if table.dtype not in _FLOATS and node.op_type != "ReduceSum":
        raise refuse(node, f"an input of type {table.dtype}")
    axes = _axes(node, inputs, attributes, table)
    places = graph.places(table)
    last = np.moveaxis(places, axes, range(-len(axes), 0))
    kept = last.shape[1 : last.ndim - len(axes)]
    count = int(np.prod(kept, dtype=np.int64))
    flat = graph.take(table, last.reshape(-1))
    result = graph.add(ops.Reduce(_REDUCTIONS[node.op_type], count), flat)
    if node.op_type == "ReduceMean":
        result = graph.add(ops.Arithmetic("divide", np.full(count, table.width / count)), result)
    keep = attributes.get("keepdims", 1)
    shape = tuple(1 if axis + 1 in axes else size for axis, size in enumerate(table.shape)) if keep else kept
    return Table(result.node, shape, table.dtype)


@operator("Softmax")
def lower_softmax(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower a softmax of rows."""
    table = graph.table(node, inputs[0])
    if len(table.shape) != 1 or attributes.get("axis", -1) not in {1, -1}:
        raise refuse(node, f"axis={attributes.get('axis', -1)} of rows of shape {table.shape}")
    return graph.add(ops.Softmax(), table)


@operator("ArgMax", "ArgMin")
def lower_argument(graph: Graph, node: Any, inputs: list[Any], attributes: dict[str, Any]) -> Table:
    """Lower the place of the greatest or least number of a row."""
    table = graph.table(node, inputs[0])
    if attributes.get("axis", 0) not in {1, -1} or len(table.shape) != 1 or attributes.get("select_last_index"):
        raise refuse(node, f"axis={attributes.get('axis', 0)} of rows of shape {table.shape}")
    if node.op_type == "ArgMin":
        table = graph.add(ops.Function("negative"), table)
    place = graph.cast(graph.add(ops.ArgMax("stays first"), table), "float64")
    return Table(place.node, (1,) if attributes.get("keepdims", 1) else (), "int64")
