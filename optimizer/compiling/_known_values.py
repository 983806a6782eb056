"""A known category of each column of a program's input that has categories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optimizer.compiling._arithmetic import Cast
from optimizer.compiling._categories import Encode
from optimizer.compiling._columns import Concatenate, Finite, Select
from optimizer.compiling._lookups import CodeLookup
from optimizer.compiling._program import INPUT
from optimizer.compiling._reading_marks import ReadAs

if TYPE_CHECKING:
    from optimizer.compiling._categories import Entry
    from optimizer.compiling._program import Node, Program

__all__ = ["known_values"]


def known_values(program: Program) -> dict[int, Entry]:
    """Return a category of each column that a program looks up before any arithmetic.

    Parameters
    ----------
    program : Program
        Compiled program.

    Returns
    -------
    dict of int to str, bytes, int or float
        First known value by column of the input; columns without categories are absent.

    Examples
    --------
    >>> from optimizer.compiling import Node, Output, Program
    >>> lookup = CodeLookup.of_tables([0], [{4.0: 1.0, 9.0: 2.0}], [0.0], rounding="none")
    >>> nodes = [Node("a", Select(np.array([1])), ("input",)), Node("b", lookup, ("a",))]
    >>> known_values(Program(2, None, nodes, {"transform": Output("b")}))
    {1: 4.0}
    """
    origins: dict[str, list[int | None]] = {INPUT: list(range(program.width))}
    known: dict[int, Entry] = {}
    for node in program.nodes:
        operator = node.operator
        origins[node.name] = _origins(node, origins, program.widths[node.name])
        if isinstance(operator, Encode):
            for column, vocabulary in zip(operator.columns.tolist(), operator.vocabularies, strict=True):
                # None and NaN are missing values.
                present = [entry for entry in vocabulary if entry is not None and entry == entry]
                if present:
                    known.setdefault(column, present[0])
        elif isinstance(operator, CodeLookup):
            keys = np.split(operator.key, np.cumsum(operator.count)[:-1])
            for place, values in zip(operator.column.tolist(), keys, strict=True):
                origin = origins[node.inputs[0]][place]
                if origin is not None and len(values):
                    known.setdefault(origin, float(values[0]))
    return known


def _origins(node: Node, origins: dict[str, list[int | None]], width: int) -> list[int | None]:
    """Return the input column of each column of a node's result; ``None`` for a computed one."""
    before = [column for name in node.inputs for column in origins[name]]
    if isinstance(node.operator, Select):
        return [before[place] for place in node.operator.columns.tolist()]
    if isinstance(node.operator, Cast | Concatenate | Finite | ReadAs):
        return before
    return [None] * width
