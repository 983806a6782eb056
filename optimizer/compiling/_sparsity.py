"""Sparse tables of a program, and the operators that need their zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.compiling._arithmetic import Arithmetic, Linear
from optimizer.compiling._columns import Concatenate, Finite
from optimizer.compiling._errors import UnsupportedOperatorError
from optimizer.compiling._reading_marks import READING_MARKS
from optimizer.compiling._texts import Bag, HasText

if TYPE_CHECKING:
    from optimizer.compiling._operator import Operator
    from optimizer.compiling._program import Program

__all__ = ["DENSE_COLUMNS", "keeps_sparse", "sparse_nodes"]

DENSE_COLUMNS = 2**16
"""Most columns of a sparse table whose zeros may be filled in."""


def keeps_sparse(operator: Operator) -> bool:
    """Return whether an operator keeps the zeros of a sparse table."""
    if isinstance(operator, Arithmetic):
        return operator.kind in {"multiply", "divide"}
    return isinstance(operator, (Bag, Concatenate, Finite, HasText, *READING_MARKS))


def sparse_nodes(program: Program) -> frozenset[str]:
    """Return the names of the nodes with sparse tables.

    Raises
    ------
    UnsupportedOperatorError
        An operator, or a result, needs the zeros of more than :data:`DENSE_COLUMNS` columns.
    """
    sparse: set[str] = set()
    for node in program.nodes:
        if isinstance(node.operator, Bag) or (keeps_sparse(node.operator) and sparse & set(node.inputs)):
            sparse.add(node.name)
        elif not isinstance(node.operator, Linear):
            for name in sparse & set(node.inputs):
                _check(type(node.operator).__name__, program.widths[name])
    for name, output in program.outputs.items():
        if output.node in sparse:
            _check(name, program.widths[output.node])
    return frozenset(sparse)


def _check(who: str, width: int) -> None:
    if width > DENSE_COLUMNS:
        raise UnsupportedOperatorError(
            f"input of {who} must have at most {DENSE_COLUMNS:,} columns of texts, got {width:,}. Put a linear model "
            "behind the texts, or count fewer terms."
        )
