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
    found = graph.reduce("ReduceSum", graph.cast(equal, "int64"))
    return graph.either(graph.compare("Greater", found, 0), place, graph.constant(len(keys), "int64"))


def _match(graph: Graph, operator: ops.Match, x: Table) -> Table:
    wide = graph.cast(x, "float64")
    ends = np.cumsum(operator.sizes)
    places = []
    for column, (end, size) in enumerate(zip(ends.tolist(), operator.sizes.tolist(), strict=True)):
        known = operator.values[end - size : end].astype(np.float64)
        nan = bool(np.isnan(known).any())
        number = _column(graph, wide, column)
        place = _place(graph, number, known[~np.isnan(known)])
        absent = graph.constant(size, "int64")
        if nan:
            absent = graph.either(graph.missing(number), graph.constant(size - 1, "int64"), absent)
        unknown = graph.compare("Equal", place, int((~np.isnan(known)).sum()))
        places.append(graph.either(unknown, absent, place))
    return graph.join(*places)


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
    wide = graph.cast(x, "float64")
    if operator.rounding == "down":
        wide = graph.add("Floor", wide)
    elif operator.rounding == "toward zero":
        down, up = graph.add("Floor", wide), graph.add("Ceil", wide)
        wide = graph.either(graph.compare("Less", wide, 0), up, down)
    ends = np.cumsum(operator.count)
    results = []
    for end, size, column, other in zip(
        ends.tolist(), operator.count.tolist(), operator.column.tolist(), operator.other.tolist(), strict=True
    ):
        number = _column(graph, wide, column)
        place = _place(graph, number, operator.key[end - size : end])
        answers = np.append(operator.value[end - size : end], other)
        found = graph.add("Gather", graph.constant(answers), place)
        results.append(graph.either(graph.missing(number), graph.constant(np.nan), found))
    return graph.cast(graph.join(*results), x.dtype)


def _member(graph: Graph, operator: ops.Member, x: Table) -> Table:
    wide = graph.cast(x, "float64")
    flags = []
    for column, start, end in zip(
        operator.columns.tolist(), operator.starts.tolist(), operator.starts.tolist()[1:], strict=False
    ):
        place = _place(graph, _column(graph, wide, column), operator.members[start:end])
        flags.append(graph.cast(graph.compare("Less", place, end - start), "float64"))
    return graph.join(*flags)


def _translate(graph: Graph, operator: ops.Translate, x: Table) -> Table:
    nan = np.isnan(operator.keys)
    wide = graph.cast(x, "float64")
    result = graph.either(graph.missing(wide), *_missing(graph, operator, nan))
    for key, value in zip(operator.keys[~nan].tolist(), operator.values[~nan].tolist(), strict=True):
        result = graph.either(graph.compare("Equal", wide, key), graph.constant(float(value)), result)
    return result


def _missing(graph: Graph, operator: ops.Translate, nan: NDArray[np.bool_]) -> tuple[Table, Table]:
    default = graph.constant(float(operator.default))
    return (graph.constant(float(operator.values[nan][0])) if nan.any() else default), default


def _buckets(graph: Graph, operator: ops.Buckets, x: Table) -> Table:
    wide, count = graph.cast(x, "float64"), len(operator.bounds) - 1
    place = graph.constant(-1.0)
    for bound in operator.bounds.tolist():
        place = graph.add("Add", place, graph.cast(graph.compare("GreaterOrEqual", wide, bound), "float64"))
    last = graph.compare("Equal", wide, float(operator.bounds[-1]))
    place = graph.either(last, graph.constant(float(count - 1)), place)
    return graph.either(graph.missing(wide), graph.constant(float(count)), place)


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


def _first_greatest(graph: Graph, operator: ops.FirstGreatest, x: Table) -> Table:
    holes = graph.missing(x)
    seen = graph.either(holes, graph.constant(-np.inf, x.dtype), x)
    place = graph.add("ArgMax", seen, dtype="int64", axis=1, keepdims=1)
    if operator.start != "first":
        return place
    return graph.either(_column(graph, holes, 0), graph.constant(0, "int64"), place)


LOWERINGS: Mapping[type[ops.Operator], Callable[..., Table]] = {
    ops.Bins: _bins,
    ops.Buckets: _buckets,
    ops.CodeLookup: _code_lookup,
    ops.FirstGreatest: _first_greatest,
    ops.Known: _known,
    ops.Match: _match,
    ops.Member: _member,
    ops.OneHot: _one_hot,
    ops.Recode: _recode,
    ops.Replace: _replace,
    ops.Translate: _translate,
}
"""How to write an operator, by its class."""
