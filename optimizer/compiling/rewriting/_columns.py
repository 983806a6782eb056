"""Selection push-down and injection: no column is computed that no result and no check needs.

First each table learns which of its columns are wanted, from the results back; then the operators are written anew
without the others (:mod:`._narrow`). A check of columns that are not read otherwise moves to the
table that they come from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling._arithmetic import Arithmetic, Cast, Linear
from optimizer.compiling._categories import Known, OneHot, Recode
from optimizer.compiling._columns import Concatenate, Finite, Select
from optimizer.compiling._functions import After, Like, Within
from optimizer.compiling._program import INPUT
from optimizer.compiling._rules import RULES
from optimizer.compiling._sparsity import sparse_nodes
from optimizer.compiling._trees import Trees
from optimizer.compiling.rewriting._checks import move_check
from optimizer.compiling.rewriting._push_down import NARROW
from optimizer.compiling.rewriting._ranges import ranges_of
from optimizer.compiling.rewriting._rebuild import Rebuild, Rewrite
from optimizer.compiling.rewriting._types import FLOATS, types_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optimizer.compiling._program import Node, Program
    from optimizer.compiling.rewriting._checks import MovedCheck

__all__ = ["push_selections"]


class _Demand:
    """Columns of each table that are needed, and the fate of each check."""

    def __init__(self, program: Program, dtype: str) -> None:
        self.program, self.dtype = program, dtype
        self.types = types_of(program, dtype)
        self.ranges = ranges_of(program, self.types)
        self.sparse = sparse_nodes(program)
        self.moved: dict[str, list[MovedCheck]] = {}
        self.implied: set[str] = set()
        self.wanted = self._wanted()
        self._judge()
        self.wanted = self._wanted()

    def is_blocking(self, node: Node) -> bool:
        """Return whether an operator needs all columns of its inputs."""
        if self.sparse & {node.name, *node.inputs}:
            return True
        if isinstance(node.operator, Concatenate | Like):
            return self.types[node.name] is None
        if isinstance(node.operator, Finite):
            return self.types[node.inputs[0]] not in FLOATS
        return not isinstance(node.operator, OneHot) and type(node.operator) not in NARROW

    def masks(self, node: Node, mask: Any) -> list[Any]:
        """Return the columns that an operator needs of its inputs for some of its columns."""
        widths = [self.program.widths[name] for name in node.inputs]
        if self.is_blocking(node):
            return [np.ones(width, np.bool_) for width in widths]
        if isinstance(node.operator, Concatenate):
            return np.split(mask, np.cumsum(widths)[:-1])
        if isinstance(node.operator, Like):
            return [mask, np.zeros(widths[1], np.bool_)]
        if isinstance(node.operator, OneHot):
            return [np.array([part.any() for part in np.split(mask, np.cumsum(node.operator.sizes)[:-1])], np.bool_)]
        rule = NARROW[type(node.operator)]
        return rule.wants(node.operator, mask, widths, [self.ranges[name] for name in node.inputs])

    def _wanted(self) -> dict[str, Any]:
        wanted = {name: np.zeros(width, np.bool_) for name, width in self.program.widths.items()}
        for output in self.program.outputs.values():
            wanted[output.node][:] = True
        for node in reversed(self.program.nodes):
            mask = wanted[node.name]
            for moved in self.moved.get(node.name, ()):
                wanted[moved.table][moved.columns] = True
            holds = isinstance(node.operator, RULES)
            if isinstance(node.operator, Within) or (self.is_blocking(node) and (holds or mask.any())):
                mask[:] = True
            if mask.any():
                for name, wants in zip(node.inputs, self.masks(node, mask), strict=True):
                    wanted[name] |= wants
        return wanted

    def _judge(self) -> None:
        """Drop checks that earlier ones imply; move those of columns that are not wanted otherwise."""
        for node in self.program.nodes:
            if not isinstance(node.operator, Finite) or self.is_blocking(node):
                continue
            table = node.inputs[0]
            fails = self.ranges[table].fails(node.operator, self.types[table])
            if not fails.any():
                self.implied.add(node.name)
            elif not self.wanted[node.name][fails].all():
                self.moved[node.name] = move_check(self.program, self.types, self.ranges, table, node.operator)


class _Columns:
    """Write a program anew, with the columns that are wanted."""

    def __init__(self, demand: _Demand) -> None:
        self.demand, self.original = demand, demand.program
        self.build = Rebuild(self.original)
        self.place: dict[str, tuple[str, NDArray[np.int64]]] = {INPUT: (INPUT, np.arange(self.original.width))}
        self.held: dict[str, tuple[str, ...]] = {INPUT: ()}
        self.applied: list[Rewrite] = []

    def run(self) -> tuple[Program, list[Rewrite]]:
        """Write all nodes, then the results, each after the checks that hold its rows."""
        for node in self.original.nodes:
            self.held[node.name] = tuple(dict.fromkeys(guard for name in node.inputs for guard in self.held[name]))
            self._node(node)
        names = list(dict.fromkeys(output.node for output in self.original.outputs.values()))
        # A check of every result comes first.
        common = set.intersection(*(set(self.held[name]) for name in names))
        first = [node for node in self.build.nodes.values() if node.name in common and node.inputs == (INPUT,)]
        self.build.put_first([node.name for node in first if isinstance(node.operator, Finite | Within)])
        places = {}
        for name in names:
            table = self._table(name, np.arange(self.original.widths[name]))
            reached = self.build.below(table)
            beside = [check for check in self.held[name] if check not in reached]
            places[name] = self.build.add(After(), table, *beside) if beside else table
        program = self.build.program(places)
        shared = [Rewrite("shared", name, f"is {other}: it runs once") for name, other in self.build.shared]
        return program, [*self.applied, *shared, *_unread(self.original, program)]

    def _node(self, node: Node) -> None:
        mask = self.demand.wanted[node.name]
        if node.name in self.demand.moved:
            self._beside(node)
        elif node.name in self.demand.implied:
            if mask.any():
                self.place[node.name] = self.place[node.inputs[0]]
            self.applied.append(Rewrite("check implied", node.name, "holds rows to what earlier checks hold them to"))
        elif mask.any():
            self.place[node.name] = self._written(node, mask)
            if isinstance(node.operator, RULES):
                self.held[node.name] += (self.place[node.name][0],)
            if not mask.all():
                kept = f"computes {len(self.place[node.name][1]):,} of {len(mask):,} columns"
                self.applied.append(Rewrite("selection pushed down", node.name, kept))

    def _beside(self, node: Node) -> None:
        """Put a check beside the values, where its columns come from."""
        guards = []
        for moved in self.demand.moved[node.name]:
            table = self._table(moved.table, self._checked_columns(moved))
            guards.append(self.build.add(moved.check, table))
            if moved.table != node.inputs[0]:
                what = f"looks at {len(moved.columns):,} columns of {moved.table}"
                self.applied.append(Rewrite("check moved", node.name, what))
        self.held[node.name] += tuple(guards)
        if self.demand.wanted[node.name].any():
            self.place[node.name] = self.place[node.inputs[0]]

    def _checked_columns(self, moved: MovedCheck) -> NDArray[np.int64]:
        """Return the columns that a moved check looks at: all where the others pass and a gather would take longer."""
        mask = self.demand.wanted[moved.table]
        fails = self.demand.ranges[moved.table].fails(moved.check, self.demand.types[moved.table])
        whole = mask.all() and 2 * len(moved.columns) >= len(mask) and fails.sum() <= len(moved.columns)
        return np.arange(len(mask)) if whole else moved.columns

    def _table(self, name: str, columns: NDArray[np.int64]) -> str:
        if not len(columns):
            kind = self.demand.types[name]
            rows = self._rows()
            return rows if kind in {None, self.demand.dtype} else self.build.add(Cast(str(kind)), rows)
        table, kept = self.place[name]
        return self.build.add(Select(np.searchsorted(kept, columns).astype(np.int64)), table)

    def _written(self, node: Node, mask: Any) -> tuple[str, NDArray[np.int64]]:
        wants = self.demand.masks(node, mask)
        if self.demand.is_blocking(node) or isinstance(node.operator, Known):
            tables = [
                self._table(name, np.arange(len(needed))) for name, needed in zip(node.inputs, wants, strict=True)
            ]
            return self.build.add(node.operator, *tables, name=node.name), np.arange(len(mask))
        if isinstance(node.operator, Concatenate):
            return self._joined(node, wants)
        if isinstance(node.operator, Like):
            return self._cast(self._table(node.inputs[0], np.flatnonzero(mask)), node), np.flatnonzero(mask)
        if isinstance(node.operator, OneHot):
            return self._one_hot(node, mask, wants[0])
        return self._narrowed(node, mask, wants)

    def _narrowed(self, node: Node, mask: Any, wants: list[Any]) -> tuple[str, NDArray[np.int64]]:
        rule = NARROW[type(node.operator)]
        tables, columns = [], []
        for name, needed in zip(node.inputs, wants, strict=True):
            kept = self.place[name][1] if rule.gathers and self._is_read(name, needed) else np.flatnonzero(needed)
            columns.append(kept)
            tables.append(self._table(name, kept) if needed.any() else self._rows())
        whole = mask.all() and all(len(kept) == len(needed) for kept, needed in zip(columns, wants, strict=True))
        if whole:
            return self.build.add(node.operator, *tables, name=node.name), np.arange(len(mask))
        narrowed = rule.without(node.operator, mask, columns)
        if isinstance(node.operator, Linear | Trees) and not wants[0].all():
            what = f"reads {int(wants[0].sum()):,} of {len(wants[0]):,} columns"
            self.applied.append(Rewrite("selection injected", node.name, what))
        return self.build.add(narrowed.operator, *tables, name=node.name), narrowed.columns

    def _is_read(self, name: str, mask: Any) -> bool:
        """Return whether a table may be read whole: unread columns of the input are left out."""
        return bool(mask.any()) and (self.place[name][0] != INPUT or bool(self.demand.wanted[INPUT].all()))

    def _rows(self) -> str:
        """A table without columns, for operators that only count rows."""
        return self.build.add(Select(np.zeros(0, np.int64)), INPUT)

    def _joined(self, node: Node, wants: list[Any]) -> tuple[str, NDArray[np.int64]]:
        tables, kept, first = [], [], 0
        kinds: set[str | None] = set()
        for name, needed in zip(node.inputs, wants, strict=True):
            if needed.any():
                tables.append(self._table(name, np.flatnonzero(needed)))
                kept.append(np.flatnonzero(needed) + first)
                kinds.add(self.demand.types[name])
            first += len(needed)
        joined = self.build.add(Concatenate(), *tables, name=node.name)
        # Without the table that had the widest type, the others would have another one.
        if len(tables) < len(wants) and self.demand.types[node.name] not in kinds:
            joined = self._cast(joined, node)
        return joined, np.concatenate(kept)

    def _cast(self, table: str, node: Node) -> str:
        kind = self.demand.types[node.name]
        if kind == self.demand.types[node.inputs[0]] and isinstance(node.operator, Like):
            return table
        return self.build.add(Cast(str(kind)), table)

    def _one_hot(self, node: Node, mask: Any, groups: Any) -> tuple[str, NDArray[np.int64]]:
        operator: Any = node.operator
        table = self._table(node.inputs[0], np.flatnonzero(groups))
        parts = [part for part in np.split(mask, np.cumsum(operator.sizes)[:-1]) if part.any()]
        sizes = np.array([int(part.sum()) for part in parts], np.int64)
        if not all(part.all() for part in parts):
            # A code of a column that is left out names none. -1 names none already, and comes first.
            places = [np.append(-1, np.where(part, np.cumsum(part) - 1, -1)) for part in parts]
            known = np.array([len(codes) for codes in places], np.int64)
            table = self.build.add(Arithmetic("add", np.ones(len(parts), np.int64)), table)
            table = self.build.add(Recode(np.concatenate(places).astype(np.int64)[:, None], known), table)
        return self.build.add(OneHot(sizes, operator.dtype), table, name=node.name), np.flatnonzero(mask)


def _unread(before: Program, after: Program) -> list[Rewrite]:
    gone = sorted(before.numeric - after.numeric)
    if not gone:
        return []
    names = gone if before.columns is None else [before.columns[place] for place in gone]
    return [Rewrite("columns unread", INPUT, f"is read without {', '.join(map(str, names))}")]


def push_selections(program: Program, dtype: str) -> tuple[Program, list[Rewrite]]:
    """Leave out what neither a result nor a check needs, for a table of one type."""
    return _Columns(_Demand(program, dtype)).run()
