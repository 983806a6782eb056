"""How a parser writes a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from optimizer.compiling._arithmetic import Cast
from optimizer.compiling._categories import Filled
from optimizer.compiling._columns import Concatenate, Finite, Select
from optimizer.compiling._errors import UnsupportedOperatorError
from optimizer.compiling._functions import Within
from optimizer.compiling._program import INPUT, Node, Program

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from optimizer.compiling._operator import Operator
    from optimizer.compiling._output import Output

__all__ = ["Builder", "Kind", "Sparsity"]

Sparsity = Literal["dense", "absent", "written"]
"""How a library holds a table: dense; sparse, where each zero is absent; or sparse, where some zero may be written."""

Kind = Literal["bool", "float", "int"]
"""Kind of numbers, as numpy has them: some functions give others for whole numbers, or for booleans."""

_AS_GIVEN = (Cast, Concatenate, Finite, Select)


class Builder:
    """A program under way: each operator that is added gets a name, and is checked at once.

    Parameters
    ----------
    width : int
        Columns of the table.
    columns : iterable of str, optional
        Their names.

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
        self._kinds: dict[str, Kind] = {}

    def add(self, operator: Operator, *inputs: str) -> str:
        """Add an operator, and give the name of its result.

        An operator that is there already on the same inputs, with the same numbers and arrays, is not added twice:
        what several members of an ensemble have in common runs once.

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
        self._widths[name] = operator.width([self._widths[one] for one in inputs])
        self._nodes.append(Node(name, operator, inputs))
        self._known[key] = name
        return name

    def node(self, name: str) -> Node | None:
        """Give the node of a result so far; none for the input."""
        return next((node for node in self._nodes if node.name == name), None)

    def width(self, name: str) -> int:
        """Columns of a result so far."""
        return self._widths[name]

    def mark(self, name: str, sparsity: Sparsity) -> None:
        """Note how the library holds a result: some models take a zero for another thing in a sparse table."""
        self._sparsity[name] = sparsity

    def sparsity(self, name: str) -> Sparsity:
        """Tell how the library holds a result: as it was marked, or as what it is chosen from or put together of."""
        if name in self._sparsity:
            return self._sparsity[name]
        node = self.node(name)
        if node is None or not isinstance(node.operator, _AS_GIVEN):
            return "dense"
        found = [self.sparsity(one) for one in node.inputs]
        return next((kind for kind in ("written", "absent") if kind in found), "dense")

    def mark_kind(self, name: str, kind: Kind) -> None:
        """Note the kind of numbers that the library holds a result in."""
        self._kinds[name] = kind

    def kind(self, name: str) -> Kind:
        """Tell the kind of numbers of a result: as marked, or that of what it is chosen from or put together of."""
        if name in self._kinds:
            return self._kinds[name]
        node = self.node(name)
        if node is None or not isinstance(node.operator, (Concatenate, Finite, Select, Within)) or not node.inputs:
            return "float"
        found = {self.kind(one) for one in node.inputs}
        return "float" if "float" in found else "int" if "int" in found else "bool"

    def program(self, outputs: Mapping[str, Output]) -> Program:
        """Finish, with the results that the program is to give.

        Raises
        ------
        UnsupportedOperatorError
            Texts reach an operator that takes numbers.
        """
        program = Program(self._width, self._columns, self._nodes, outputs)
        for node in program.nodes:
            if isinstance(node.operator, Filled):
                raise UnsupportedOperatorError(
                    f"{node.operator.who} gives texts, and what follows takes numbers: put an encoder between them"
                )
        return program
