"""Operators that compute functions of numbers, of rows and of two tables."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

import optimizer.compiling as ops
from udfs.compiling.onnx._elementary import expm1, log1p, maximum, minimum, relu, sign, softmax
from udfs.compiling.onnx._graph import Graph, Table, wider

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["LOWERINGS", "single"]


def single(graph: Graph, x: Table, kind: str) -> Table:
    """Refuse float64 where runtimes have the operator for float32 alone."""
    if x.dtype == "float64":
        raise ops.UnsupportedOperatorError(
            f"Function({kind}) of float64 has no ONNX form that runtimes compute: ask for dtype='float32' "
            "where the model was fitted on float32, or keep the compiled pipeline"
        )
    return graph.add(kind.capitalize(), x)


def _plain(kind: str) -> Callable[[Graph, Table], Table]:
    return lambda graph, x: graph.add(kind, x)


def _zero(graph: Graph, x: Table) -> Table:
    return graph.compare("Equal", x, 0)


_FUNCTIONS: dict[str, Callable[[Graph, Table], Table]] = {
    "abs": _plain("Abs"),
    "erf": partial(single, kind="erf"),
    "exp": _plain("Exp"),
    "log": _plain("Log"),
    "negative": _plain("Neg"),
    "nonzero": lambda graph, x: graph.either(_zero(graph, x), graph.constant(np.finfo(x.dtype).tiny, x.dtype), x),
    "relu": relu,
    "sin": _plain("Sin"),
    "sqrt": _plain("Sqrt"),
    "square": lambda graph, x: graph.add("Mul", x, x),
    "tanh": _plain("Tanh"),
    "ceil": _plain("Ceil"),
    "expm1": expm1,
    "floor": _plain("Floor"),
    "is_nan": lambda graph, x: graph.cast(graph.missing(x), x.dtype),
    "log1p": log1p,
    "not": lambda graph, x: graph.cast(_zero(graph, x), x.dtype),
    "reciprocal": lambda graph, x: graph.add("Div", graph.constant(1, x.dtype), x),
    "round": _plain("Round"),
    "sign": sign,
}


def _function(graph: Graph, operator: ops.Function, x: Table) -> Table:
    return _FUNCTIONS[operator.kind](graph, x)


_ARITHMETIC = {"add": "Add", "subtract": "Sub", "multiply": "Mul", "power": "Pow"}
_COMPARISONS = {
    "equal": "Equal",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "less": "Less",
    "less_equal": "LessOrEqual",
}


def _combine(graph: Graph, operator: ops.Combine, left: Table, right: Table) -> Table:
    dtype = wider(left.dtype, right.dtype)
    left, right = graph.cast(left, dtype), graph.cast(right, dtype)
    if operator.kind in _ARITHMETIC:
        return graph.add(_ARITHMETIC[operator.kind], left, right)
    if operator.kind == "divide":
        real = "float64" if dtype == "int64" else dtype
        return graph.cast(graph.add("Div", graph.cast(left, real), graph.cast(right, real)), dtype)
    if operator.kind in {"maximum", "minimum"}:
        real = "float64" if dtype == "int64" else dtype
        chosen = maximum if operator.kind == "maximum" else minimum
        return graph.cast(chosen(graph, graph.cast(left, real), graph.cast(right, real)), dtype)
    if operator.kind in _COMPARISONS:
        return graph.cast(graph.compare(_COMPARISONS[operator.kind], left, right), dtype)
    # What is not zero, NaN included, is true.
    flags = [graph.add("Not", _zero(graph, table)) for table in (left, right)]
    return graph.cast(graph.add(operator.kind.capitalize(), *flags), dtype)


def _reduce(graph: Graph, operator: ops.Reduce, x: Table, width: int) -> Table:
    size = width // operator.groups
    groups = graph.shaped(x, operator.groups, size)
    kinds = {"sum": "ReduceSum", "mean": "ReduceMean", "product": "ReduceProd"}
    if operator.kind in kinds:
        return graph.reduce(kinds[operator.kind], groups, 2, keep=False)
    if operator.kind == "sum_square":
        return graph.reduce("ReduceSum", graph.add("Mul", groups, groups), 2, keep=False)
    if operator.kind == "min":
        least = graph.add("Neg", graph.greatest(graph.add("Neg", groups), 2))
        return graph.shaped(least, operator.groups)
    most = graph.greatest(groups, 2)
    if operator.kind == "max":
        return graph.shaped(most, operator.groups)
    endless = graph.add("IsInf", most, dtype="bool")
    shift = graph.either(endless, graph.constant(0, x.dtype), most)
    total = graph.reduce("ReduceSum", graph.add("Exp", graph.add("Sub", groups, shift)), 2)
    return graph.shaped(graph.add("Add", graph.add("Log", total), shift), operator.groups)


def _shares(graph: Graph, operator: ops.Shares, x: Table, width: int) -> Table:
    total = graph.reduce("ReduceSum", x)
    empty = graph.compare("Equal", total, 0)
    shares = graph.add("Div", x, graph.either(empty, graph.constant(1, x.dtype), total))
    return graph.either(empty, graph.constant(1 / width, x.dtype), shares) if operator.equal else shares


def _ordered_sum(graph: Graph, operator: ops.OrderedSum, x: Table) -> Table:
    dtype = wider(x.dtype, operator.weights.dtype.name)
    sums = []
    for start, end in pairwise(operator.starts.tolist()):
        if start == end:
            sums.append(graph.filled(x, np.zeros(1), x.dtype))
            continue
        factors = graph.cast(graph.columns(x, operator.columns[start:end]), dtype)
        terms = graph.add("Mul", factors, graph.constant(operator.weights[start:end], dtype))
        sums.append(graph.shaped(graph.running_sum(terms), 1))
    joined = graph.join(*sums)
    widest = wider(joined.dtype, operator.bias.dtype.name)
    return graph.add("Add", graph.cast(joined, widest), graph.constant(operator.bias, widest))


LOWERINGS: Mapping[type[ops.Operator], Callable[..., Table]] = {
    ops.Combine: _combine,
    ops.Function: _function,
    ops.Like: lambda graph, _, x, other: graph.cast(x, other.dtype),
    ops.LogSoftmax: lambda graph, _, x: softmax(graph, x, log=True),
    ops.OrderedSum: _ordered_sum,
    ops.Power: lambda graph, operator, x: graph.add("Pow", x, graph.constant(operator.exponent, x.dtype)),
}
"""Functions that add the nodes of an operator to an ONNX graph, by operator class."""

OF_WIDTH: Mapping[type[ops.Operator], Callable[..., Table]] = {ops.Reduce: _reduce, ops.Shares: _shares}
"""Those that also take the number of columns of their input."""
