"""Operators of a program as nodes of an ONNX graph, and the rows that each refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import optimizer.compiling as ops
from udfs.compiling.onnx import _curves as curves
from udfs.compiling.onnx import _ensembles as ensembles
from udfs.compiling.onnx import _functions as functions
from udfs.compiling.onnx import _lookups as lookups
from udfs.compiling.onnx import _numbers as numbers
from udfs.compiling.onnx import _trees as trees
from udfs.compiling.onnx._graph import Graph, Table, wider

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from optimizer.compiling import Node, Operator, Program

__all__ = ["lower", "shape_of"]


def _first(graph: Graph, operator: Operator, first: Table, *others: Table) -> Table:  # noqa: ARG001 - a lowering's
    return first


_LOWERINGS: Mapping[type[Operator], Callable[..., Table]] = {
    **lookups.LOWERINGS,
    **curves.LOWERINGS,
    **ensembles.LOWERINGS,
    **functions.LOWERINGS,
    **numbers.LOWERINGS,
    ops.After: _first,
}
_OF_WIDTH: Mapping[type[Operator], Callable[..., Table]] = {**curves.OF_WIDTH, **functions.OF_WIDTH}


def lower(graph: Graph, program: Program, values: dict[str, Table]) -> dict[str, Table]:
    """Write all operators but those of the host.

    Parameters
    ----------
    values : dict of str to Table
        The program's table and what its host gives, by their names; the result of every other node is added.

    Returns
    -------
    dict of str to Table
        Refused rows of each validation node, bool of shape (rows,).

    Raises
    ------
    UnsupportedOperatorError
        An operator, or an option of one, has no exact ONNX form; the message names it.
    """
    leaves: dict[str, Table] = {}  # leaves of each node of trees
    broken: dict[str, Table] = {}
    for node in program.nodes:
        if node.operator.host:
            continue
        tables = [values[name] for name in node.inputs]
        if isinstance(node.operator, ops.Trees):
            leaves[node.name] = trees.leaves_of(graph, node.operator, tables[0])
            values[node.name] = trees.sum_of(graph, node.operator, leaves[node.name])
        elif type(node.operator) in trees.LEAVES and node.inputs[0] in leaves:
            values[node.name] = trees.LEAVES[type(node.operator)](
                graph, node.operator, leaves[node.inputs[0]], *tables[1:]
            )
        else:
            values[node.name] = _lowered(graph, program, node, tables)
        flags = _broken(graph, node.operator, tables)
        if flags:
            broken[node.name] = graph.or_(*flags)
    return broken


def shape_of(operator: Operator | None, width: int) -> list[int]:
    """Return the shape of an operator's result behind the axis of rows."""
    if isinstance(operator, ops.Leaves) and operator.columns:
        return [operator.trees // operator.columns, operator.columns]
    return [width]


def _lowered(graph: Graph, program: Program, node: Node, tables: list[Table]) -> Table:
    kind = type(node.operator)
    if kind in _OF_WIDTH:
        return _OF_WIDTH[kind](graph, node.operator, *tables, program.widths[node.inputs[0]])
    if kind is ops.Choose:
        condition, yes, no = tables
        dtype = wider(yes.dtype, no.dtype)
        chosen = graph.add("Not", graph.compare("Equal", condition, 0))
        return graph.either(chosen, graph.cast(yes, dtype), graph.cast(no, dtype))
    if kind not in _LOWERINGS:
        raise ops.UnsupportedOperatorError(
            f"{kind.__name__} (node {node.name!r}) has no exact ONNX form: save the compiled pipeline instead"
        )
    return _LOWERINGS[kind](graph, node.operator, *tables)


def _broken(graph: Graph, rule: Operator, tables: list[Table]) -> list[Table]:
    """Return flags of the rows that break the rule of an operator, each of shape (rows,)."""
    if isinstance(rule, ops.Finite):
        seen = tables[0] if rule.dtype == "as given" else graph.cast(tables[0], rule.dtype)
        if seen.dtype == "int64":
            return []
        flags = [] if rule.nan else [graph.missing(seen)]
        if not rule.infinite:
            flags.append(graph.add("IsInf", seen, dtype="bool"))
        return [graph.any(flag) for flag in flags]
    if isinstance(rule, ops.Known):
        return [graph.any(graph.compare("GreaterOrEqual", tables[0], graph.constant(rule.sizes)))]
    if isinstance(rule, ops.Reject):
        return [graph.any(graph.add("Not", graph.compare("Equal", tables[1], 0)))]
    if isinstance(rule, ops.Within):
        wide = graph.cast(tables[0], "float64")
        sides = (("Less", rule.low), ("Greater", rule.high))
        return [graph.any(graph.compare(kind, wide, graph.constant(bound, "float64"))) for kind, bound in sides]
    return []
