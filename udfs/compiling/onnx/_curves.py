"""Operators that bend columns, multiply them and measure distances; functions from scores to quantities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import optimizer.compiling as ops
from udfs.compiling.onnx._elementary import expm1, log1p, sign
from udfs.compiling.onnx._graph import Graph, Table, wider

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["LOWERINGS"]

# Beyond it float32 has no exponential.
_LARGEST = 88.7
_UFUNCS = {
    **{name: name.capitalize() for name in ("ceil", "exp", "floor", "log", "sin", "sqrt", "tanh")},
    "absolute": "Abs",
    "fabs": "Abs",
    "negative": "Neg",
    "rint": "Round",
}


def _holes(graph: Graph, x: Table, mark: float) -> Table:
    return graph.missing(x) if mark != mark else graph.compare("Equal", x, mark)  # NaN is not itself


def _patch(graph: Graph, operator: ops.Patch, x: Table, marked: Table, filling: Table) -> Table:
    low, high = (graph.constant(bound, filling.dtype) for bound in (operator.low, operator.high))
    clipped = graph.either(graph.compare("Less", filling, low), low, filling)
    clipped = graph.either(graph.compare("Greater", clipped, high), high, clipped)
    return graph.either(
        _holes(graph, graph.columns(marked, [operator.column]), operator.mark),
        graph.cast(clipped, x.dtype),
        graph.columns(x, [operator.column]),
    )


def _monomials(graph: Graph, operator: ops.Monomials, x: Table) -> Table:
    known = graph.join(graph.filled(x, np.ones(1), x.dtype), x)
    ends = np.cumsum(operator.rounds)
    for end, size in zip(ends.tolist(), operator.rounds.tolist(), strict=True):
        left = graph.columns(known, operator.left[end - size : end])
        right = graph.columns(x, operator.right[end - size : end])
        known = graph.join(known, graph.add("Mul", left, right))
    return known


def _yeo_johnson(graph: Graph, operator: ops.PowerTransform, x: Table) -> Table:
    lambdas = operator.lambdas
    dtype = wider(x.dtype, lambdas.dtype.name)
    eps, other = np.finfo(dtype).eps, 2 - lambdas
    near, far = np.abs(lambdas) < eps, np.abs(lambdas - 2) <= eps
    zero = graph.constant(0, x.dtype)
    up = graph.either(graph.compare("Less", x, 0), zero, x)
    down = graph.either(graph.compare("Greater", x, 0), zero, x)
    above = graph.cast(log1p(graph, up), dtype)
    below = graph.cast(log1p(graph, graph.add("Neg", down)), dtype)

    def curved(logs: Table, powers: np.ndarray, flat: np.ndarray) -> Table:
        bent = expm1(graph, graph.add("Mul", graph.constant(powers, dtype), logs))
        bent = graph.add("Div", bent, graph.constant(np.where(flat, 1.0, powers), dtype))
        return graph.either(graph.constant(flat), logs, bent)

    upper, lower = curved(above, lambdas, near), graph.add("Neg", curved(below, other, far))
    return graph.cast(graph.either(graph.compare("GreaterOrEqual", x, 0), upper, lower), x.dtype)


def _power_transform(graph: Graph, operator: ops.PowerTransform, x: Table) -> Table:
    if operator.method != "yeo-johnson":
        raise ops.UnsupportedOperatorError(f"PowerTransform with method={operator.method!r} has no ONNX form here")
    return _yeo_johnson(graph, operator, x)


def _ufunc(graph: Graph, operator: ops.Ufunc, x: Table) -> Table:
    forms: dict[str, Callable[[], Table]] = {
        "expm1": lambda: expm1(graph, x),
        "log1p": lambda: log1p(graph, x),
        "positive": lambda: x,
        "sign": lambda: graph.either(graph.missing(x), x, sign(graph, x)),
        "square": lambda: graph.add("Mul", x, x),
        "isnan": lambda: graph.cast(graph.missing(x), x.dtype),
    }
    if operator.name in forms:
        return forms[operator.name]()
    if operator.name not in _UFUNCS:
        known = ", ".join(sorted({*forms, *_UFUNCS}))
        raise ops.UnsupportedOperatorError(f"Ufunc with name={operator.name!r} has no ONNX form; {known} have one")
    return graph.add(_UFUNCS[operator.name], x)


def _exp_rounded(graph: Graph, x: Table) -> Table:
    return graph.cast(graph.add("Exp", graph.cast(x, "float64")), "float32")


def _link(graph: Graph, operator: ops.Link, x: Table) -> Table:
    if operator.kind == "exp":
        return graph.add("Exp", x)
    if operator.kind == "exp2":
        return graph.add("Pow", graph.constant(2, x.dtype), x)
    if operator.kind == "softplus":
        return log1p(graph, graph.add("Exp", x))
    if operator.kind == "signed square":
        return graph.add("Mul", x, graph.add("Abs", x))
    if operator.kind == "logistic of float32":
        least = graph.constant(_LARGEST, x.dtype)
        minus = graph.add("Neg", x)
        power = _exp_rounded(graph, graph.either(graph.compare("Greater", minus, least), least, minus))
        unit = graph.constant(1, "float32")
        return graph.add("Div", unit, graph.add("Add", power, unit))
    powers = _exp_rounded(graph, graph.add("Sub", x, graph.greatest(x)))
    total = graph.reduce("ReduceSum", graph.cast(powers, "float64"))
    return graph.add("Div", powers, graph.cast(total, "float32"))


def _differences(graph: Graph, x: Table, points: np.ndarray, dtype: str) -> Table:
    """Return the differences of shape (rows, points, columns)."""
    rows = graph.shaped(graph.cast(x, dtype), 1, points.shape[1])
    return graph.add("Sub", rows, graph.constant(points, dtype))


def _distances(graph: Graph, operator: ops.Distances, x: Table) -> Table:
    dtype = wider(x.dtype, operator.points.dtype.name)
    apart = None if operator.metric == "cosine" else _differences(graph, x, operator.points, dtype)
    if apart is None or operator.metric not in {"sqeuclidean", "euclidean", "manhattan"}:
        raise ops.UnsupportedOperatorError(f"Distances with metric={operator.metric!r} has no ONNX form here")
    if operator.metric == "manhattan":
        return graph.reduce("ReduceSum", graph.add("Abs", apart), 2, keep=False)
    squares = graph.reduce("ReduceSum", graph.add("Mul", apart, apart), 2, keep=False)
    return squares if operator.metric == "sqeuclidean" else graph.add("Sqrt", squares)


def _patched(graph: Graph, operator: ops.Patch, x: Table, marked: Table, filling: Table, width: int) -> Table:
    patch = _patch(graph, operator, x, marked, filling)
    before, after = np.arange(operator.column), np.arange(operator.column + 1, width)
    parts = [graph.columns(x, side) if len(side) else None for side in (before, after)]
    return graph.join(*(part for part in (parts[0], patch, parts[1]) if part is not None))


LOWERINGS: Mapping[type[ops.Operator], Callable[..., Table]] = {
    ops.Distances: _distances,
    ops.Link: _link,
    ops.Missing: lambda graph, operator, x: graph.cast(_holes(graph, x, operator.mark), "float64"),
    ops.Monomials: _monomials,
    ops.PowerTransform: _power_transform,
    ops.Ufunc: _ufunc,
}
"""Functions that add the nodes of an operator to an ONNX graph, by operator class."""

OF_WIDTH: Mapping[type[ops.Operator], Callable[..., Table]] = {ops.Patch: _patched}
"""Those that also take the number of columns of their input."""
