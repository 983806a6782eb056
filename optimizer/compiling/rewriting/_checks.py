"""Checks of finite numbers, moved to the tables that their columns come from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from optimizer.compiling._arithmetic import Arithmetic, Cast, Clip
from optimizer.compiling._columns import Concatenate, Finite, Impute, Select
from optimizer.compiling._curves import Monomials
from optimizer.compiling._functions import Within
from optimizer.compiling._lookups import Replace
from optimizer.compiling.rewriting._ranges import Ranges, is_invertible, rounding_function
from optimizer.compiling.rewriting._types import FLOATS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from optimizer.compiling._operator import Operator
    from optimizer.compiling._program import Node, Program

__all__ = ["MovedCheck", "check_before", "move_check"]

_MOST = 2**24  # numbers of the table of factors


@dataclass(frozen=True, slots=True)
class MovedCheck:
    """Check of some columns of a table.

    ``table`` is the name of a node, or of the program's input; the check looks at ``columns``, ascending.
    """

    table: str
    columns: NDArray[np.int64]
    check: Finite


def check_before(check: Finite, operator: Operator, dtype: str | None, ranges: Ranges) -> Finite | None:
    """Return the check of an operator's input that refuses the same rows; ``None`` if there is none for all columns."""
    result = operator.dtype if isinstance(operator, Cast) else dtype
    if ranges.beyond(check, result).any() or not _keeps_kind(operator, np.arange(len(ranges.nan)), dtype).all():
        return None
    return replace(check, dtype="as given")


def _keeps_kind(operator: Operator, columns: NDArray[np.int64], dtype: str | None) -> NDArray[np.bool_]:
    """Return whether NaN, infinities and finite numbers of each column stay what they are."""
    if isinstance(operator, Arithmetic):
        return is_invertible(operator, dtype)[columns]
    if isinstance(operator, Replace):
        return np.isfinite(operator.value[columns])
    floats = isinstance(operator, Cast) and operator.dtype in FLOATS and dtype in FLOATS
    return np.full(len(columns), floats or isinstance(operator, Clip) or rounding_function(operator) is not None)


class _Mover:
    """Walk from a check to earlier tables, column by column."""

    def __init__(
        self, program: Program, types: Mapping[str, str | None], ranges: Mapping[str, Ranges], check: Finite
    ) -> None:
        self._nodes = {node.name: node for node in program.nodes}
        self._types, self._ranges, self._widths, self._check = types, ranges, program.widths, check
        self.stops: list[tuple[str, bool, NDArray[np.int64]]] = []

    def move(self, table: str, columns: NDArray[np.int64], *, nan: bool) -> None:
        """Move a check of some columns of a table, which lets NaN pass or not."""
        check = replace(self._check, dtype="as given", nan=nan)
        columns = columns[self._ranges[table].select(columns).fails(check, self._types[table])]
        if not len(columns):
            return
        node = self._nodes.get(table)
        if node is None:
            self.stops.append((table, nan, columns))
        elif isinstance(node.operator, Finite | Within):
            self.move(node.inputs[0], columns, nan=nan)
        elif isinstance(node.operator, Select):
            self.move(node.inputs[0], np.asarray(node.operator.columns, np.int64)[columns], nan=nan)
        elif isinstance(node.operator, Concatenate):
            first = 0
            for name in node.inputs:
                inside = (columns >= first) & (columns < first + self._widths[name])
                self.move(name, columns[inside] - first, nan=nan)
                first += self._widths[name]
        else:
            self._move_through(node, columns, nan=nan)

    def _move_through(self, node: Node, columns: NDArray[np.int64], *, nan: bool) -> None:
        operator, dtype = node.operator, self._types[node.inputs[0]] if node.inputs else None
        if isinstance(operator, Monomials):
            factors = _factors(operator, columns, self._widths[node.inputs[0]])
            # An infinity times zero is NaN, so factors are held only where both are refused.
            if factors is not None and not nan and not self._check.infinite:
                self.move(node.inputs[0], factors, nan=nan)
                return
            able, filled = np.zeros(len(columns), np.bool_), nan
        elif isinstance(operator, Impute) and np.isnan(operator.missing):
            able, filled = np.isfinite(operator.values[columns]), True
        else:
            able, filled = _keeps_kind(operator, columns, dtype), nan
        if able.any() and not (filled and self._check.infinite):
            self.move(node.inputs[0], columns[able], nan=filled)
        if not able.all():
            self.stops.append((node.name, nan, columns[~able]))


def _factors(operator: Monomials, columns: NDArray[np.int64], width: int) -> NDArray[np.int64] | None:
    """Return the columns that some products are made of; ``None`` where the table of factors would be too large."""
    if (1 + width + len(operator.left)) * width > _MOST:
        return None
    used = np.zeros((1 + width + len(operator.left), width), np.bool_)
    used[1 : 1 + width] = np.eye(width, dtype=np.bool_)
    for place, (left, right) in enumerate(zip(operator.left, operator.right, strict=True), 1 + width):
        used[place] = used[left]
        used[place, right] = True
    return np.flatnonzero(used[columns].any(axis=0))


def move_check(
    program: Program, types: Mapping[str, str | None], ranges: Mapping[str, Ranges], table: str, check: Finite
) -> list[MovedCheck]:
    """Return checks of earlier tables that refuse the rows that a check of a table refuses.

    What earlier checks promise is not checked again.
    """
    known = ranges[table]
    # A column whose finite numbers may be beyond the check's type is looked at where it is.
    beyond = known.beyond(check, types[table])
    mover = _Mover(program, types, ranges, check)
    mover.move(table, np.flatnonzero(~beyond), nan=check.nan)
    moved = [MovedCheck(table, np.flatnonzero(beyond), check)] if beyond.any() else []
    grouped: dict[tuple[str, bool], list[NDArray[np.int64]]] = {}
    for stop, nan, columns in mover.stops:
        grouped.setdefault((stop, nan), []).append(columns)
    for (stop, nan), parts in grouped.items():
        dtype = check.dtype if stop == table else "as given"
        moved.append(MovedCheck(stop, np.unique(np.concatenate(parts)), replace(check, nan=nan, dtype=dtype)))
    return moved
