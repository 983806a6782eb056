"""Builder of programs, which parsers fill with operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from optimizer.compiling._arithmetic import Cast
from optimizer.compiling._categories import Filled
from optimizer.compiling._columns import Concatenate, Finite, Select
from optimizer.compiling._errors import UnsupportedOperatorError
from optimizer.compiling._functions import Within
from optimizer.compiling._program import INPUT, Node, Program
from optimizer.compiling._reading_marks import ReadAs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from optimizer.compiling._operator import Operator
    from optimizer.compiling._output import Output

__all__ = ["Builder", "Sparsity"]

Sparsity = Literal["dense", "absent", "written"]
"""Layout of a table in the library: dense, sparse without explicit zeros, or sparse with explicit zeros."""

_AS_GIVEN = (Cast, Concatenate, Finite, ReadAs, Select)


class Builder:
    """Builder of a program, which names and validates each operator that is added.

    Examples
    --------
    >>> from optimizer.compiling import Cast, INPUT, Output
    >>> build = Builder(2)
    >>> rounded = build.add(Cast("float32"), INPUT)
    >>> build.program({"transform": Output(rounded)}).nodes[0].name
    'cast'
    """

    def __init__(self, width: int, columns: Iterable[str] | None = None) -> None:
        self._width, self._columns = width, None if columns is None else tuple(columns)
        self._nodes: list[Node] = []
        self._widths = {INPUT: width}
        self._known: dict[tuple[bytes, tuple[str, ...]], str] = {}
        self._sparsity: dict[str, Sparsity] = {}
        self._booleans: set[str] = set()

    def add(self, operator: Operator, *inputs: str) -> str:
        """Add an operator, and return the name of its result.

        An equal operator on the same inputs is not added twice, so common steps of an ensemble run once.

        Raises
        ------
        ProgramError
            The operator does not take inputs of these widths.
        """
        key = (operator.digest(), inputs)
        if key in self._known:
            return self._known[key]
        kind = type(operator).__name__.lower()
        number = sum(node.name.partition("_")[0] == kind for node in self._nodes)
        name = f"{kind}_{number + 1}" if number else kind
        self._widths[name] = operator.width([self._widths[table] for table in inputs])
        self._nodes.append(Node(name, operator, inputs))
        self._known[key] = name
        return name

    def node(self, name: str) -> Node | None:
        """Return the node of a result; ``None`` for the input."""
        return next((node for node in self._nodes if node.name == name), None)

    def width(self, name: str) -> int:
        """Return the number of columns of a result."""
        return self._widths[name]

    def mark(self, name: str, sparsity: Sparsity) -> None:
        """Set the layout of a result in the library, because some models treat absent zeros as missing."""
        self._sparsity[name] = sparsity

    def sparsity(self, name: str) -> Sparsity:
        """Return the layout of a result: as set, or that of the tables that it selects from or concatenates."""
        if name in self._sparsity:
            return self._sparsity[name]
        node = self.node(name)
        if node is None or not isinstance(node.operator, _AS_GIVEN):
            return "dense"
        layouts = [self.sparsity(table) for table in node.inputs]
        return next((layout for layout in ("written", "absent") if layout in layouts), "dense")

    def mark_boolean(self, name: str) -> None:
        """Set that the library holds a result as booleans."""
        self._booleans.add(name)

    def is_boolean(self, name: str) -> bool:
        """Return whether a result is boolean: as set, or as all tables that it selects from or concatenates."""
        if name in self._booleans:
            return True
        node = self.node(name)
        if node is None or not isinstance(node.operator, (Concatenate, Finite, ReadAs, Select, Within)):
            return False
        return bool(node.inputs) and all(self.is_boolean(table) for table in node.inputs)

    def program(self, outputs: Mapping[str, Output]) -> Program:
        """Return the program with some outputs.

        Raises
        ------
        UnsupportedOperatorError
            Texts reach an operator of numbers.
        """
        program = Program(self._width, self._columns, self._nodes, outputs)
        for node in program.nodes:
            if isinstance(node.operator, Filled):
                raise UnsupportedOperatorError(
                    f"{node.operator.who} of texts cannot be compiled: the next step reads numbers. Put an encoder "
                    "between them."
                )
        return program
