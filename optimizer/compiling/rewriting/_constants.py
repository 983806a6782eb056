"""Constant folding: arithmetic on the numbers of a table of the model is done once, when the program is rewritten.

What changes no bit is left out: times one, minus zero, a cast to the type that is there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling._arithmetic import Arithmetic, Cast
from optimizer.compiling._categories import Recode
from optimizer.compiling._columns import Impute, Select
from optimizer.compiling._constants import Constant
from optimizer.compiling._lookups import CodeLookup
from optimizer.compiling._program import INPUT
from optimizer.compiling._reading_marks import READING_MARKS
from optimizer.compiling.rewriting._rebuild import Rebuild, Rewrite
from optimizer.compiling.rewriting._types import FLOATS, types_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from optimizer.compiling._operator import Operator
    from optimizer.compiling._program import Program

__all__ = ["OPERATIONS", "fold_constants"]

OPERATIONS: Mapping[str, Callable[..., NDArray[Any]]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
}
"""Functions of numpy for the kinds of :class:`Arithmetic`."""


def fold_constants(program: Program, dtype: str) -> tuple[Program, list[Rewrite]]:
    """Fold what is known of the model alone into its tables, for a table of one type."""
    build, places, applied = Rebuild(program), {INPUT: INPUT}, []
    types = types_of(program, dtype)
    for node in program.nodes:
        inputs = tuple(places[name] for name in node.inputs)
        if len(inputs) == 1 and _changes_nothing(node.operator, types[node.inputs[0]]):
            places[node.name] = inputs[0]
            if not isinstance(node.operator, READING_MARKS):
                applied.append(Rewrite("constant folded", node.name, "changes nothing"))
            continue
        above = build.nodes.get(inputs[0]) if len(inputs) == 1 else None
        folded = None if above is None else _folded(above.operator, node.operator, types[node.inputs[0]])
        if folded is None or above is None:
            places[node.name] = build.add(node.operator, *inputs, name=node.name)
            continue
        places[node.name] = build.add(folded, *above.inputs, name=node.name)
        applied.append(Rewrite("constant folded", node.name, f"is computed in the table of {above.name}"))
    return build.program({name: places[name] for name in (output.node for output in program.outputs.values())}), applied


def _changes_nothing(operator: Operator, dtype: str | None) -> bool:
    if isinstance(operator, Cast):
        return operator.dtype == dtype
    if isinstance(operator, READING_MARKS):
        return True
    if not isinstance(operator, Arithmetic) or dtype not in FLOATS:
        return False
    if operator.kind in {"multiply", "divide"}:
        return bool((operator.operand == 1).all())
    # x + 0.0 makes 0.0 of -0.0; x - 0.0 and x + -0.0 leave it.
    zero = np.signbit(operator.operand) == (operator.kind == "add")
    return bool(((operator.operand == 0) & zero).all())


def _folded(table: Operator, operator: Operator, dtype: str | None) -> Operator | None:
    """Return one operator in place of two, or ``None``; `dtype` is the type of the table."""
    if isinstance(table, CodeLookup):
        return _in_lookup(table, operator, dtype)
    if isinstance(table, Recode):
        return _in_codes(table, operator)
    if not isinstance(table, Constant):
        return None
    row = table.values
    chosen = row[operator.columns] if isinstance(operator, Select) else _computed(operator, row, np.arange(len(row)))
    return None if chosen is None else Constant(chosen)


def _in_lookup(table: CodeLookup, operator: Operator, dtype: str | None) -> Operator | None:
    """Fold constants into the converted numbers: numbers of the result's type, which float64 represents exactly."""
    if dtype not in FLOATS:
        return None
    columns = np.arange(len(table.column))
    tables = ((table.value, np.repeat(columns, table.count)), (table.other, columns), (table.missing, columns))
    folded = []
    for values, places in tables:
        with np.errstate(over="ignore"):
            computed = _computed(operator, values.astype(dtype), places)
        if computed is None or computed.dtype != dtype:
            return None
        folded.append(computed.astype(np.float64))
    value, other, missing = folded
    return replace(table, value=value, other=other, missing=missing)


def _in_codes(table: Recode, operator: Operator) -> Operator | None:
    width, each = len(table.sizes), table.values.shape[1]
    of_row = np.repeat(np.arange(width), table.sizes)
    if isinstance(operator, Recode) and each == 1 and np.issubdtype(table.values.dtype, np.integer):
        starts = np.concatenate([[0], np.cumsum(operator.sizes)[:-1]]).astype(np.int64)
        if not ((table.values[:, 0] >= 0) & (table.values[:, 0] < operator.sizes[of_row])).all():
            return None
        return Recode(operator.values[table.values[:, 0] + starts[of_row]], table.sizes)
    columns = of_row[:, None] * each + np.arange(each)
    computed = _computed(operator, table.values, columns)
    return None if computed is None else replace(table, values=computed)


def _computed(operator: Operator, values: NDArray[Any], columns: NDArray[np.int64]) -> NDArray[Any] | None:
    """Compute an operator on the numbers of some columns, in the types in which it would run."""
    with np.errstate(all="ignore"):
        if isinstance(operator, Cast) and operator.dtype in FLOATS:
            return values.astype(operator.dtype)
        if isinstance(operator, Arithmetic) and (values.dtype.name in FLOATS or operator.operand.dtype == values.dtype):
            if operator.kind == "divide" and values.dtype.name not in FLOATS:
                return None
            operand = operator.operand.astype(values.dtype) if operator.rounded else operator.operand
            return np.asarray(OPERATIONS[operator.kind](values, operand[columns]).astype(values.dtype))
        if isinstance(operator, Impute) and values.dtype.name in FLOATS:
            mark = np.asarray(operator.missing, values.dtype)
            holes = np.isnan(values) if np.isnan(mark) else values == mark
            return np.where(holes, operator.values[columns].astype(values.dtype), values)
    return None
