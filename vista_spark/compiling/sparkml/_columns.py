"""Columns of a DataFrame during the lowering of the stages that read and add them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import EXAMPLE, refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


__all__ = ["NAMED", "Columns"]

NAMED = "column:"
"""Prefix of outputs that become columns."""

# The table is as wide as the columns that turn out to be read; until then, as wide as none will be.
_MOST = 2**40


@dataclass(slots=True)
class Columns:
    """Columns that the stages so far read from the DataFrame, and those that they add.

    ``kinds`` are the lengths of the vectors of known columns, 0 for a column of numbers; unknown columns count as
    numbers if a stage reads either. ``strangers`` are of unknown kind: a stage that is not compiled adds them.
    ``doubles`` are known to be floats, not whole numbers, and ``words`` to be texts.
    """

    kinds: Mapping[str, int] = field(default_factory=dict)
    strangers: frozenset[str] = frozenset()
    doubles: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    nodes: list[ops.Node] = field(default_factory=list)
    widths: dict[str, int] = field(default_factory=lambda: {ops.INPUT: _MOST})
    read: dict[str, str] = field(default_factory=dict)
    vectors: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    added: dict[str, ops.Output] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)
    """Nodes in which NaN cannot come."""
    policy: str | None = None

    def fork(self) -> Columns:
        """Copy what a further stage may change."""
        return replace(
            self,
            nodes=list(self.nodes),
            widths=dict(self.widths),
            read=dict(self.read),
            vectors=set(self.vectors),
            texts=set(self.texts),
            added=dict(self.added),
            roles=dict(self.roles),
            whole=set(self.whole),
        )

    def add(self, operator: ops.Operator, *inputs: str) -> str:
        """Add an operator, and return the name of its result."""
        kind = type(operator).__name__.lower()
        number = sum(node.name.partition("_")[0] == kind for node in self.nodes)
        name = f"{kind}_{number + 1}" if number else kind
        self.widths[name] = operator.width([self.widths[table] for table in inputs])
        self.nodes.append(ops.Node(name, operator, inputs))
        return name

    def scaled(self, node: str, factor: float, shift: float = 0.0) -> str:
        """Multiply all columns of a node by a factor, and then add a shift."""
        width = self.widths[node]
        node = node if factor == 1 else self.add(ops.Arithmetic("multiply", np.full(width, float(factor))), node)
        return node if shift == 0 else self.add(ops.Arithmetic("add", np.full(width, float(shift))), node)

    def number(self, column: str) -> str:
        """Return the node of a column of numbers.

        Raises
        ------
        UnsupportedOperatorError
            The column is a vector.
        """
        node = self.value(column)
        if self.is_vector(column):
            raise refusal(f"A stage that reads the vector {column!r} as a number")
        return node

    def vector(self, column: str, width: int) -> str:
        """Return the node of a column of vectors of some width.

        Raises
        ------
        UnsupportedOperatorError
            The column has another width, or is one of numbers.
        """
        if column not in self.added and column not in self.read:
            known = self.kinds.get(column, width)
            self._enter(column, known)
        node = self.added[column].node if column in self.added else self.read[column]
        if not self.is_vector(column) or self.widths[node] != width:
            raise refusal(
                f"A stage that reads {column!r} as a vector of {width}", f"it has {self.widths[node]} numbers"
            )
        return node

    def value(self, column: str) -> str:
        """Return the node of a column of numbers or vectors.

        Raises
        ------
        UnsupportedOperatorError
            Nothing is known of the column.
        """
        named = column in self.added and self.added[column].labels is not None
        if named or self.is_text(column):
            raise refusal(f"A stage that reads the texts {column!r} as numbers")
        if column in self.added:
            return self.added[column].node
        if column not in self.read:
            if column in self.strangers and column not in self.kinds:
                reason = "the column comes from a stage that is not compiled, and its kind is unknown"
                raise refusal(f"A stage that reads {column!r}", reason, EXAMPLE)
            self._enter(column, self.kinds.get(column, 0))
        return self.read[column]

    def text(self, column: str) -> int:
        """Return the index of a column of texts, or of lists of words, in the table.

        Raises
        ------
        UnsupportedOperatorError
            The column is computed, or holds numbers.
        """
        if column in self.added or (column in self.read and column not in self.texts):
            raise refusal(f"A stage that reads the numbers {column!r} as texts")
        if column not in self.read:
            self._enter(column, 0)
            self.texts.add(column)
        return list(self.read).index(column)

    def is_text(self, column: str) -> bool:
        """Return whether a column is known to hold texts."""
        return column in self.texts or column in self.words

    def is_vector(self, column: str) -> bool:
        """Return whether a column in use holds vectors."""
        return column in self.vectors or (column in self.added and not self.added[column].flat)

    def is_read(self, column: str) -> bool:
        """Return whether a column comes from the DataFrame, and may have nulls."""
        return column not in self.added

    def add_column(self, column: str, node: str, *, flat: bool = False, role: str | None = None) -> None:
        """Add a column; none for an empty name.

        A ``flat`` column holds numbers, not vectors. ``role`` is the method of the compiled pipeline that returns it.
        """
        if not column:
            return
        if flat:
            node = self.add(ops.Cast("float64"), node)
        self.added[column] = ops.Output(node, flat=flat)
        if role is not None:
            self.roles[role] = column

    def finite(self, node: str, who: str, policy: str) -> str:
        """Reject rows with NaN."""
        self.set_policy(policy)
        finite = self.add(ops.Finite("float64", nan=False, who=who, infinite=True), node)
        self.whole.add(finite)
        return finite

    def reject(self, node: str, flags: str, why: str, policy: str) -> str:
        """Reject rows with a flag."""
        self.set_policy(policy)
        return self.add(ops.Reject(why), node, flags)

    def set_policy(self, policy: str) -> None:
        """Set the policy for rejected rows.

        Raises
        ------
        UnsupportedOperatorError
            Another stage has another policy.
        """
        if self.policy not in {None, policy}:
            raise refusal(
                "A stage with handleInvalid='skip' beside one with 'error'", remedy="Set one of them for both."
            )
        self.policy = policy

    def concatenate(self, nodes: Sequence[str]) -> str:
        """Join columns."""
        if len(nodes) == 1:
            return nodes[0]
        joined = self.add(ops.Concatenate(), *nodes)
        if all(node in self.whole for node in nodes):
            self.whole.add(joined)
        return joined

    def program(self, outputs: Mapping[str, ops.Output]) -> ops.Program:
        """Finish the program.

        Raises
        ------
        UnsupportedOperatorError
            Columns of numbers and of vectors are read, or several columns of vectors.
        """
        vectors = [column for column in self.read if column in self.vectors]
        if vectors and len(self.read) > 1:
            raise refusal(
                f"A pipeline that reads the columns {', '.join(self.read)}",
                f"{', '.join(vectors)} hold vectors, beside other columns",
                "Put a VectorAssembler first.",
            )
        width = self._start()
        used = {name for node in self.nodes for name in node.inputs} | {output.node for output in outputs.values()}
        nodes = [node for node in self.nodes if node.name in used]
        names = None if vectors else list(self.read)
        return ops.Program(width, names, _without_identities(nodes, outputs, width), outputs)

    def _start(self) -> int:
        return sum(self.widths[node] for node in self.read.values())

    def _enter(self, column: str, kind: int) -> None:
        if not self.read:
            self.add(ops.Cast("float64"), ops.INPUT)
        start = self._start()
        self.read[column] = self.add(ops.Select(np.arange(start, start + max(kind, 1))), "cast")
        if kind:
            self.vectors.add(column)


def _without_identities(nodes: list[ops.Node], outputs: Mapping[str, ops.Output], width: int) -> list[ops.Node]:
    """Leave out the choice of all columns of the table."""
    everything = np.arange(width)
    same = {
        node.name: node.inputs[0]
        for node in nodes
        if isinstance(node.operator, ops.Select)
        and node.inputs == ("cast",)
        and np.array_equal(node.operator.columns, everything)
    }
    if any(output.node in same for output in outputs.values()):
        return nodes
    return [
        ops.Node(node.name, node.operator, tuple(same.get(name, name) for name in node.inputs))
        for node in nodes
        if node.name not in same
    ]
