"""Operators that look numbers and codes up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import optimizer.compiling as ops
from udfs.compiling.onnx._graph import Graph, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from numpy.typing import NDArray

__all__ = ["LOWERINGS"]


def _column(graph: Graph, x: Table, place: int) -> Table:
    return graph.columns(x, [place])


def _place(graph: Graph, number: Table, keys: NDArray[Any]) -> Table:
    """Find a number of shape (rows, 1) among keys: its place, or the number of keys; int64."""
    if not len(keys):
        return graph.filled(number, np.zeros(1, np.int64))
    equal = graph.compare("Equal", number, graph.constant(keys))
    place = graph.add("ArgMax", graph.cast(equal, "float32"), dtype="int64", axis=1, keepdims=1)
    matches = graph.reduce("ReduceSum", graph.cast(equal, "int64"))
    return graph.either(graph.compare("Greater", matches, 0), place, graph.constant(len(keys), "int64"))


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)[: len(sizes)]


def _recode(graph: Graph, operator: ops.Recode, x: Table) -> Table:
    places = graph.add("Add", x, graph.constant(_starts(operator.sizes)))
    rows = graph.add("Gather", graph.constant(operator.values), places, axis=0)
    rows = Table(rows.name, operator.values.dtype.name)
    return graph.shaped(rows, len(operator.sizes) * operator.values.shape[1])


def _one_hot(graph: Graph, operator: ops.OneHot, x: Table) -> Table:
    total = int(operator.sizes.sum())
    none = graph.compare("Less", x, 0)
    moved = graph.add("Add", x, graph.constant(_starts(operator.sizes)))
    place = graph.either(none, graph.constant(total, "int64"), moved)
    zeros = graph.filled(x, np.zeros(total + 1), operator.dtype)
    ones = graph.filled(x, np.ones(len(operator.sizes)), operator.dtype)
    full = graph.add("ScatterElements", zeros, place, ones, axis=1)
    return graph.columns(full, np.arange(total))


def _known(graph: Graph, operator: ops.Known, x: Table) -> Table:
    limits = graph.constant(np.maximum(operator.sizes - 1, 0))
    return graph.either(graph.compare("Greater", x, limits), limits, x)


def _replace(graph: Graph, operator: ops.Replace, x: Table) -> Table:
    wide = graph.cast(x, "float64")
    above = graph.compare("GreaterOrEqual", wide, graph.constant(operator.low))
    below = graph.compare("LessOrEqual", wide, graph.constant(operator.high))
    return graph.either(graph.add("And", above, below), graph.constant(operator.value, x.dtype), x)


def _code_lookup(graph: Graph, operator: ops.CodeLookup, x: Table) -> Table:
    if not len(operator.column):  # no category of a histogram is read
        return graph.columns(x, [])
    wide = graph.cast(x, "float64")
    if operator.rounding == "down":
        wide = graph.add("Floor", wide)
    elif operator.rounding == "toward zero":
        down, up = graph.add("Floor", wide), graph.add("Ceil", wide)
        wide = graph.either(graph.compare("Less", wide, 0), up, down)
    ends = np.cumsum(operator.count)
    results = []
    for number_of, (end, size, column) in enumerate(
        zip(ends.tolist(), operator.count.tolist(), operator.column.tolist(), strict=True)
    ):
        other, missing = float(operator.other[number_of]), float(operator.missing[number_of])
        number = _column(graph, wide, column)
        place = _place(graph, number, operator.key[end - size : end])
        answers = np.append(operator.value[end - size : end], other)
        answer = graph.add("Gather", graph.constant(answers), place)
        results.append(graph.either(graph.missing(number), graph.constant(missing), answer))
    return graph.cast(graph.join(*results), "float64" if x.dtype == "int64" else x.dtype)


def _bins(graph: Graph, operator: ops.Bins, x: Table) -> Table:
    wide, ends = graph.cast(x, "float64"), np.cumsum(operator.sizes)
    columns = []
    for column, (end, size) in enumerate(zip(ends.tolist(), operator.sizes.tolist(), strict=True)):
        number = _column(graph, wide, column)
        if not size:
            columns.append(graph.filled(x, np.zeros(1, np.int64)))
            continue
        edges = graph.constant(operator.edges[end - size : end].astype(np.float64))
        passed = graph.cast(graph.compare("GreaterOrEqual", number, edges), "int64")
        counted = graph.reduce("ReduceSum", passed)
        columns.append(graph.either(graph.missing(number), graph.constant(size, "int64"), counted))
    return graph.join(*columns)


LOWERINGS: Mapping[type[ops.Operator], Callable[..., Table]] = {
    ops.Bins: _bins,
    ops.CodeLookup: _code_lookup,
    ops.Known: _known,
    ops.OneHot: _one_hot,
    ops.Recode: _recode,
    ops.Replace: _replace,
}
"""Functions that add the nodes of an operator to an ONNX graph, by operator class."""
