"""Results of an ensemble's members, one behind the other along an axis before the rows, as skl2onnx writes bagging."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling.onnx._graph import refuse

if TYPE_CHECKING:
    from vista_spark.compiling.onnx._graph import Graph, Table

__all__ = ["Members", "members_of", "reduced"]


@dataclass(frozen=True, slots=True)
class Members:
    """Value of shape (members, rows, columns): a table per member."""

    tables: tuple[Table, ...]


def members_of(node: Any, values: list[Any]) -> Members:
    """Join members.

    Raises
    ------
    UnsupportedOperatorError
        A value has no axis of members.
    """
    if not all(isinstance(value, Members) for value in values):
        raise refuse(node, "tables beside members of an ensemble")
    return Members(tuple(table for value in values for table in value.tables))


def reduced(graph: Graph, node: Any, members: Members, axes: list[int] | None, *, keeps: bool) -> Table:
    """Add up the members, or average them.

    Raises
    ------
    UnsupportedOperatorError
        Another axis or operator, or tables of several shapes.
    """
    tables = members.tables
    if axes not in ([0], [-3]) or keeps or node.op_type not in {"ReduceMean", "ReduceSum"}:
        raise refuse(node, f"axes={axes} of members of an ensemble")
    if len({(table.shape, table.dtype) for table in tables}) > 1:
        raise refuse(node, f"members of shapes {[table.shape for table in tables]}")
    divisor = float(len(tables)) if node.op_type == "ReduceMean" else 1.0
    return graph.add(ops.Average(np.zeros(0), divisor), *tables)
