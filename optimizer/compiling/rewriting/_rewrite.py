"""Algebraic rewrites of a program (Hummingbird, thesis section 5.5.2): the same results, by less work.

Each is a module of its own: :mod:`._columns` pushes selections down and injects them,
:mod:`._constants` folds constants, :mod:`._scalers` takes scalers into linear layers and
:mod:`._thresholds` takes them into trees. What two branches have in common runs once, and what no result needs
does not run (:mod:`._rebuild`). A program is rewritten for tables of float32, or of float64: their numbers are
rounded otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.compiling._errors import ProgramError
from optimizer.compiling.rewriting._columns import push_selections
from optimizer.compiling.rewriting._constants import fold_constants
from optimizer.compiling.rewriting._scalers import fold_scalers
from optimizer.compiling.rewriting._thresholds import pull_thresholds
from optimizer.compiling.rewriting._types import FLOATS

if TYPE_CHECKING:
    from optimizer.compiling._program import Program
    from optimizer.compiling.rewriting._rebuild import Rewrite

__all__ = ["Rewritten", "rewrite"]

_PASSES = (fold_constants, push_selections, fold_constants, pull_thresholds, fold_scalers)


@dataclass(frozen=True, eq=False, slots=True)
class Rewritten:
    """Program with the same results as another one, and the changes that led to it."""

    program: Program
    applied: tuple[Rewrite, ...]
    dtype: str

    def explain(self) -> str:
        """Describe the program, and what was done to it, one rewrite a line."""
        lines = [f"  rewritten for {self.dtype}: {change.explain()}" for change in self.applied]
        return "\n".join([self.program.explain(), *lines])


def rewrite(program: Program, dtype: str) -> Rewritten:
    """Rewrite a program for tables of one type, without a change of the original.

    The same rows are refused; a reason names the first step that refuses a row, and a later one only where it refuses
    more. Everything is equal bit by bit but the sums of linear layers, whose terms may be added in another order.

    Parameters
    ----------
    program : Program
        The program.
    dtype : {"float32", "float64"}
        Type of the input table.

    Raises
    ------
    ProgramError
        The type is another one.

    Examples
    --------
    >>> import numpy as np
    >>> from optimizer.compiling import INPUT, Arithmetic, Builder, Output, Select
    >>> build = Builder(3)
    >>> scaled = build.add(Arithmetic("divide", np.float64([2, 4, 8])), INPUT)
    >>> chosen = build.add(Select(np.array([2])), scaled)
    >>> print(rewrite(build.program({"transform": Output(chosen)}), "float64").explain())
    3 columns -> transform (1 columns)
      select_r1 = Select(columns (1,)) of input
      arithmetic = Arithmetic(kind='divide', rounded=False, operand (1,)) of select_r1
      rewritten for float64: selection pushed down: arithmetic computes 1 of 3 columns
      rewritten for float64: columns unread: input is read without 0, 1
    """
    if dtype not in FLOATS:
        raise ProgramError(f"dtype must be 'float32' or 'float64', got {dtype!r}.")
    applied: list[Rewrite] = []
    for run_pass in _PASSES:
        program, changes = run_pass(program, dtype)
        applied += changes
    return Rewritten(program, tuple(applied), dtype)
