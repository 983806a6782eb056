"""Operators that combine members of ensembles, and constants."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

import optimizer.compiling as ops
from udfs.compiling.onnx._elementary import log1p, maximum
from udfs.compiling.onnx._graph import Graph, Table, wider

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["LOWERINGS"]


def _average(graph: Graph, operator: ops.Average, *tables: Table) -> Table:
    terms = list(tables)
    if len(operator.weights):
        terms = [
            graph.add("Mul", graph.cast(table, "float64"), graph.constant(weight))
            for table, weight in zip(tables, operator.weights.tolist(), strict=True)
        ]
    dtype = wider(*(table.dtype for table in terms))
    if dtype == "int64":
        terms, dtype = [graph.cast(table, "float64") for table in terms], "float64"
    total = graph.cast(terms[0], dtype)
    for table in terms[1:]:
        total = graph.add("Add", total, graph.cast(table, dtype))
    return graph.add("Div", total, graph.constant(operator.divisor, dtype))


def _votes(graph: Graph, operator: ops.Votes, x: Table) -> Table:
    classes = graph.constant(np.arange(operator.classes))
    total = graph.filled(x, np.zeros(operator.classes), operator.hits.dtype.name)
    for voter, (hit, miss) in enumerate(zip(operator.hits, operator.misses, strict=True)):
        named = graph.compare("Equal", graph.columns(x, [voter]), classes)
        total = graph.add("Add", total, graph.either(named, graph.constant(hit), graph.constant(miss)))
    return total


def _pairwise(graph: Graph, operator: ops.Pairwise, decisions: Table, confidences: Table) -> Table:
    nothing = graph.filled(decisions, np.zeros(1))
    votes, sums = [nothing] * operator.classes, [nothing] * operator.classes
    decisions, confidences = graph.cast(decisions, "float64"), graph.cast(confidences, "float64")
    pair = 0
    for first in range(operator.classes):
        for second in range(first + 1, operator.classes):
            decision, sure = graph.columns(decisions, [pair]), graph.columns(confidences, [pair])
            sums[first] = graph.add("Sub", sums[first], sure)
            sums[second] = graph.add("Add", sums[second], sure)
            for side, place in ((0, first), (1, second)):
                won = graph.cast(graph.compare("Equal", decision, side), "float64")
                votes[place] = graph.add("Add", votes[place], won)
            pair += 1
    confidence = graph.join(*sums)
    size = graph.add("Mul", graph.add("Add", graph.add("Abs", confidence), graph.constant(1.0)), graph.constant(3.0))
    return graph.add("Add", graph.join(*votes), graph.add("Div", confidence, size))


def _weighted_median(graph: Graph, operator: ops.WeightedMedian, x: Table) -> Table:
    # Equal values come in the order of their places, as a stable sort has them.
    ordered, order = graph.sorted(graph.cast(x, "float64"), len(operator.weights))
    weights = graph.add("Gather", graph.constant(operator.weights), order)
    sums = graph.add("CumSum", weights, graph.constant(np.array(1)))
    half = graph.add("Mul", graph.columns(sums, [len(operator.weights) - 1]), graph.constant(0.5))
    reached = graph.cast(graph.compare("GreaterOrEqual", sums, half), "float32")
    place = graph.add("ArgMax", reached, dtype="int64", axis=1, keepdims=1)
    return graph.add("GatherElements", ordered, place, axis=1)


def _log_mean(graph: Graph, operator: ops.LogMean, *tables: Table) -> Table:
    total = tables[0]
    for table in tables[1:]:
        most = maximum(graph, total, table)
        apart = graph.add("Neg", graph.add("Abs", graph.add("Sub", total, table)))
        sums = graph.add("Add", most, log1p(graph, graph.add("Exp", apart)))
        # Two logarithms of nothing have no difference.
        total = graph.either(
            graph.compare("Equal", total, table), graph.add("Add", most, graph.constant(math.log(2), most.dtype)), sums
        )
    return graph.add("Sub", total, graph.constant(math.log(operator.divisor), total.dtype))


LOWERINGS: Mapping[type[ops.Operator], Callable[..., Table]] = {
    ops.Average: _average,
    ops.Constant: lambda graph, operator, x: graph.filled(x, operator.values),
    ops.LogMean: _log_mean,
    ops.Pairwise: _pairwise,
    ops.Votes: _votes,
    ops.WeightedMedian: _weighted_median,
}
"""Functions that add the nodes of an operator to an ONNX graph, by operator class."""
