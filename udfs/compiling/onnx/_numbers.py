"""Operators that compute with each number, choose columns and make classes of scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import optimizer.compiling as ops
from udfs.compiling.onnx._elementary import sigmoid, softmax
from udfs.compiling.onnx._graph import Graph, Table, wider

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

__all__ = ["LOWERINGS"]

_OPERATIONS = {"add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div"}


def _arithmetic(graph: Graph, operator: ops.Arithmetic, x: Table) -> Table:
    operand = graph.constant(operator.operand)
    if operator.rounded:
        operand = graph.constant(operator.operand, x.dtype)
    dtype = wider(x.dtype, operand.dtype)
    second = graph.constant(operator.operand, x.dtype if operator.rounded else None)
    result = graph.add(_OPERATIONS[operator.kind], graph.cast(x, dtype), graph.cast(second, dtype))
    return graph.cast(result, x.dtype)


def _clip(graph: Graph, operator: ops.Clip, x: Table) -> Table:
    low, high = (graph.constant(bound, x.dtype) for bound in (operator.low, operator.high))
    x = graph.either(graph.compare("Less", x, low), low, x)
    return graph.either(graph.compare("Greater", x, high), high, x)


def _impute(graph: Graph, operator: ops.Impute, x: Table) -> Table:
    nan = operator.missing != operator.missing
    holes = graph.missing(x) if nan else graph.compare("Equal", x, operator.missing)
    return graph.either(holes, graph.constant(operator.values, x.dtype), x)


def _linear(graph: Graph, operator: ops.Linear, x: Table) -> Table:
    dtype = wider(x.dtype, operator.weights.dtype.name)
    product = graph.add("MatMul", graph.cast(x, dtype), graph.constant(operator.weights, dtype))
    widest = wider(dtype, operator.bias.dtype.name)
    return graph.add("Add", graph.cast(product, widest), graph.constant(operator.bias, widest))


def _normalise(graph: Graph, operator: ops.Normalise, x: Table) -> Table:
    seen = x
    if operator.norm == "max" and not operator.tiny:  # a search for the greatest by ">" passes over NaN
        seen = graph.either(graph.missing(x), graph.constant(0, x.dtype), x)
    if operator.norm == "max":
        norm = graph.greatest(graph.add("Abs", seen))
    elif operator.norm == "lp":
        powers = graph.add("Pow", graph.add("Abs", x), graph.constant(operator.p, x.dtype))
        norm = graph.add("Pow", graph.reduce("ReduceSum", powers), graph.constant(1 / operator.p, x.dtype))
    else:
        norm = graph.reduce({"l1": "ReduceL1", "l2": "ReduceL2"}[operator.norm], x)
    if not operator.tiny:
        return graph.either(graph.compare("Equal", norm, 0), x, graph.add("Div", x, norm))
    small = graph.compare("Less", norm, 10 * float(np.finfo(x.dtype).eps))
    return graph.add("Div", x, graph.either(small, graph.constant(1, x.dtype), norm))


def _arg_max(graph: Graph, operator: ops.ArgMax, x: Table) -> Table:
    """Return the index of the largest number, the first one in a tie. Runtimes differ if there is a NaN."""
    scores = graph.cast(x, "float64") if x.dtype == "int64" else x
    holes = graph.missing(scores)
    seen = graph.either(holes, graph.constant(-np.inf, scores.dtype), scores)
    place = graph.add("ArgMax", seen, dtype="int64", axis=1, keepdims=1)
    if operator.nan == "left out":
        return place
    if operator.nan == "stays first":
        return graph.either(graph.columns(holes, [0]), graph.constant(0, "int64"), place)
    first = graph.add("ArgMax", graph.cast(holes, "float32"), dtype="int64", axis=1, keepdims=1)
    counts = graph.reduce("ReduceSum", graph.cast(holes, "int64"))
    return graph.either(graph.compare("Greater", counts, 0), first, place)


def _above(graph: Graph, operator: ops.Above, x: Table) -> Table:
    kind = "GreaterOrEqual" if operator.or_equal else "Greater"
    return graph.cast(graph.compare(kind, x, operator.threshold), "int64")


def _complement(graph: Graph, _: ops.Complement, x: Table) -> Table:
    return graph.join(graph.add("Sub", graph.constant(1, x.dtype), x), x)


def _same(_: Graph, __: Any, x: Table, *___: Table) -> Table:
    return x


LOWERINGS: Mapping[type[ops.Operator], Callable[..., Table]] = {
    ops.Above: _above,
    ops.ArgMax: _arg_max,
    ops.Arithmetic: _arithmetic,
    ops.Cast: lambda graph, operator, x: graph.cast(x, operator.dtype),
    ops.Clip: _clip,
    ops.Compare: lambda graph, operator, x: graph.cast(graph.compare("Greater", x, operator.threshold), x.dtype),
    ops.Complement: _complement,
    ops.Concatenate: lambda graph, _, *tables: graph.join(*tables),
    ops.Finite: _same,
    ops.NarrowIntegers: _same,  # the table of the model is one of floats
    ops.ReadAs: _same,
    ops.Impute: _impute,
    ops.Linear: _linear,
    ops.Normalise: _normalise,
    ops.Reject: _same,
    ops.Select: lambda graph, operator, x: graph.columns(x, operator.columns),
    ops.Sigmoid: lambda graph, _, x: sigmoid(graph, x),
    ops.Softmax: lambda graph, _, x: softmax(graph, x),
    ops.Within: _same,
}
"""Functions that add the nodes of an operator to an ONNX graph, by operator class."""
