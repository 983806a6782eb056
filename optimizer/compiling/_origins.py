"""Columns of the input that each column of a program's tables is computed from alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.compiling._arithmetic import Arithmetic, Cast, Clip, Compare
from optimizer.compiling._categories import Encode, Known, Recode
from optimizer.compiling._columns import Concatenate, Finite, Impute, Select
from optimizer.compiling._curves import Missing, PowerTransform, Quantiles, Ufunc
from optimizer.compiling._functions import After, Within
from optimizer.compiling._lookups import CodeLookup, Replace
from optimizer.compiling._program import INPUT
from optimizer.compiling._reading_marks import READING_MARKS
from optimizer.compiling._texts import Bag

if TYPE_CHECKING:
    from optimizer.compiling._program import Node, Program

__all__ = ["origins"]

_PER_COLUMN = (
    *(After, Arithmetic, Cast, Clip, Compare, Finite, Impute, Known, Missing, PowerTransform, Quantiles, Replace),
    *(Ufunc, Within, *READING_MARKS),
)


def origins(program: Program) -> dict[str, list[int | None]]:
    """Return the column of the input behind each column of each table; ``None`` for one of several columns.

    Examples
    --------
    >>> import numpy as np
    >>> from optimizer.compiling import Node, Output, Program
    >>> nodes = [Node("a", Select(np.array([2, 0])), ("input",)), Node("b", Cast("float32"), ("a",))]
    >>> origins(Program(3, None, nodes, {"transform": Output("b")}))["b"]
    [2, 0]
    """
    known: dict[str, list[int | None]] = {INPUT: list(range(program.width))}
    for node in program.nodes:
        known[node.name] = _origins(node, [known[name] for name in node.inputs], program.widths[node.name])
    return known


def _origins(node: Node, inputs: list[list[int | None]], width: int) -> list[int | None]:
    operator = node.operator
    columns: list[int | None] = [None] * width
    if isinstance(operator, _PER_COLUMN):
        columns = inputs[0]
    elif isinstance(operator, Concatenate):
        columns = [column for table in inputs for column in table]
    elif isinstance(operator, Select):
        columns = [inputs[0][place] for place in operator.columns.tolist()]
    elif isinstance(operator, CodeLookup):
        columns = [inputs[0][place] for place in operator.column.tolist()]
    elif isinstance(operator, Recode):
        columns = [column for column in inputs[0] for _ in range(operator.values.shape[1])]
    elif isinstance(operator, Encode):
        columns = list(operator.columns.tolist())
    elif isinstance(operator, Bag):
        columns = [int(operator.columns[0])] * width
    return columns
