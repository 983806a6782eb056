"""Which tables of a program leave their zeros out, and where they have to be filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._arithmetic import Arithmetic, Linear
from ._columns import Concatenate, Finite
from ._errors import UnsupportedOperatorError
from ._reading import NarrowIntegers
from ._texts import Bag, HasText

if TYPE_CHECKING:
    from ._operator import Operator
    from ._program import Program

__all__ = ["DENSE_COLUMNS", "keeps_sparse", "sparse_nodes"]

DENSE_COLUMNS = 2**16
"""The most columns of a sparse table that an operator, or a result, has with its zeros."""


def keeps_sparse(operator: Operator) -> bool:
    """Whether an operator gives a sparse table for one: zeros stay zeros."""
    if isinstance(operator, Arithmetic):
        return operator.kind in {"multiply", "divide"}
    return isinstance(operator, Bag | Concatenate | Finite | HasText | NarrowIntegers)


def sparse_nodes(program: Program) -> frozenset[str]:
    """Name the nodes that give sparse tables.

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
            f"{who} takes all numbers of {width:,} columns of texts, of which {DENSE_COLUMNS:,} are the most: "
            "let a linear model follow, or take fewer terms"
        )
