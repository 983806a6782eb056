"""Functions that ONNX has no operator for, and those whose operators lose digits in a runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from udfs.compiling.onnx._graph import Graph, Table

__all__ = ["expm1", "log1p", "maximum", "minimum", "relu", "sigmoid", "sign", "softmax"]


def sigmoid(graph: Graph, x: Table) -> Table:
    """``1 / (1 + exp(-x))``: the operator of a runtime may stop at 1e-8, or take one from one."""
    unit = graph.constant(1, x.dtype)
    return graph.add("Div", unit, graph.add("Add", graph.add("Exp", graph.add("Neg", x)), unit))


def softmax(graph: Graph, x: Table, *, log: bool = False) -> Table:
    """Return the softmax of each row, or its logarithm."""
    moved = graph.add("Sub", x, graph.greatest(x))
    powers = graph.add("Exp", moved)
    total = graph.reduce("ReduceSum", powers)
    return graph.add("Sub", moved, graph.add("Log", total)) if log else graph.add("Div", powers, total)


def log1p(graph: Graph, x: Table) -> Table:
    """``log(1 + x)`` with all digits near zero: what ``1 + x`` loses is divided out again."""
    unit = graph.constant(1, x.dtype)
    u = graph.add("Add", x, unit)
    whole = graph.add("Log", u)
    corrected = graph.add("Mul", whole, graph.add("Div", x, graph.add("Sub", u, unit)))
    # Beyond 1e15, where 1 + x is x, no correction is needed; at infinity there is no quotient.
    large = graph.compare("Greater", x, 1e15)
    return graph.either(graph.compare("Equal", u, 1), x, graph.either(large, whole, corrected))


def expm1(graph: Graph, x: Table) -> Table:
    """``exp(x) - 1`` with all digits near zero."""
    unit = graph.constant(1, x.dtype)
    u = graph.add("Exp", x)
    less = graph.add("Sub", u, unit)
    corrected = graph.add("Mul", less, graph.add("Div", x, graph.add("Log", u)))
    far = graph.compare("Greater", graph.add("Abs", x), 30)
    return graph.either(graph.compare("Equal", u, 1), x, graph.either(far, less, corrected))


def maximum(graph: Graph, left: Table, right: Table) -> Table:
    """Return the elementwise maximum of two tables; NaN if either number is NaN."""
    first = graph.add("Or", graph.compare("Greater", left, right), graph.missing(left), dtype="bool")
    return graph.either(first, left, right)


def minimum(graph: Graph, left: Table, right: Table) -> Table:
    """Return the elementwise minimum of two tables; NaN if either number is NaN."""
    first = graph.add("Or", graph.compare("Less", left, right), graph.missing(left), dtype="bool")
    return graph.either(first, left, right)


def relu(graph: Graph, x: Table) -> Table:
    """Zero for what is below; NaN stays."""
    return graph.either(graph.compare("Less", x, 0), graph.constant(np.zeros(()), x.dtype), x)


def sign(graph: Graph, x: Table) -> Table:
    """Minus one, zero or one; zero for NaN."""
    above, below = (graph.cast(graph.compare(kind, x, 0), x.dtype) for kind in ("Greater", "Less"))
    return graph.add("Sub", above, below)
