"""Rules by which a program's columns of numbers are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from optimizer.compiling._arithmetic import Cast
from optimizer.compiling._columns import Concatenate, Finite, Impute, Select
from optimizer.compiling._lookups import CodeLookup
from optimizer.compiling._program import INPUT
from optimizer.compiling._reading_marks import NarrowIntegers, ReadAs

if TYPE_CHECKING:
    from optimizer.compiling._program import Node, Program

__all__ = ["Reading", "readings"]


class Reading(NamedTuple):
    """Rule for one column of numbers. By default values are converted as ``float`` does, and ``None`` is missing."""

    by_value: str | None = None
    """Encoder or imputer that compares values as they are: ``None``, texts and other objects are no numbers."""
    unknown: float | None = None
    """Number that no encoder of the column knows; ``None`` if a step computes with the column."""
    by_dtype: str | None = None
    """Library that takes columns of a DataFrame by their dtype, and only dtypes of numbers."""


class _Origin(NamedTuple):
    """Column of the input, and whether its values are compared as they are."""

    column: int
    by_value: bool


def readings(program: Program) -> list[Reading]:
    """Return the rule of each column of the input.

    Parameters
    ----------
    program : Program
        Program as it was compiled: rewritten programs lack the marks.

    Examples
    --------
    >>> from optimizer.compiling import Node, Output, Program
    >>> lookup = CodeLookup.of_tables([0], [{4.0: 1.0, 9.0: 2.0}], [0.0], rounding="none")
    >>> nodes = [Node("a", ReadAs("OneHotEncoder", "values"), ("input",)), Node("b", lookup, ("a",))]
    >>> readings(Program(1, None, nodes, {"transform": Output("b")}))
    [Reading(by_value='OneHotEncoder', unknown=19.0, by_dtype=None)]
    """
    origins: dict[str, list[_Origin | None]] = {INPUT: [_Origin(column, False) for column in range(program.width)]}
    by_value: dict[int, str] = {}
    by_dtype: dict[int, str] = {}
    computed: set[int] = set()
    known: dict[int, list[float]] = {column: [0.0] for column in range(program.width)}
    for node in program.nodes:
        before = [origin for name in node.inputs for origin in origins[name]]
        present = [origin for origin in before if origin is not None]
        origins[node.name] = [None] * program.widths[node.name]
        if isinstance(node.operator, ReadAs):
            rule = by_value if node.operator.rule == "values" else by_dtype
            for origin in present:
                rule.setdefault(origin.column, node.operator.who)
        if isinstance(node.operator, CodeLookup):
            keys = np.split(node.operator.key, np.cumsum(node.operator.count)[:-1])
            for place, values in zip(node.operator.column.tolist(), keys, strict=False):
                origin = before[place]
                if origin is not None and origin.by_value:
                    known[origin.column] += np.abs(values).tolist()
            computed |= {origin.column for origin in present if not origin.by_value}
        elif isinstance(node.operator, Cast | Concatenate | Finite | Impute | NarrowIntegers | ReadAs | Select):
            origins[node.name] = _moved(node, before)
            if isinstance(node.operator, Impute):
                for origin in present:
                    known[origin.column].append(abs(node.operator.missing))
        else:
            computed |= {origin.column for origin in present}
    computed |= {
        origin.column for output in program.outputs.values() for origin in origins[output.node] if origin is not None
    }
    return [
        Reading(
            by_value.get(column),
            None if column in computed or column not in by_value else 2 * float(np.nanmax(known[column])) + 1,
            by_dtype.get(column),
        )
        for column in range(program.width)
    ]


def _moved(node: Node, before: list[_Origin | None]) -> list[_Origin | None]:
    """Return the origins of the columns of an operator that passes values on."""
    if isinstance(node.operator, Select):
        return [before[place] for place in node.operator.columns.tolist()]
    if isinstance(node.operator, ReadAs) and node.operator.rule == "values":
        return [None if origin is None else _Origin(origin.column, True) for origin in before]
    return before
