"""A program: operators in a DAG, and what it gives."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optimizer.compiling._arithmetic import Cast
from optimizer.compiling._categories import Encode
from optimizer.compiling._columns import Concatenate, Select
from optimizer.compiling._errors import ProgramError
from optimizer.compiling._operator import OPERATORS, Operator
from optimizer.compiling._output import Output
from optimizer.compiling._reading_marks import ReadAs
from optimizer.compiling._texts import Bag

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from numpy.typing import NDArray

__all__ = ["INPUT", "Node", "Program"]

INPUT = "input"
"""The name of the table that a program is given."""
_VERSION = 2


@dataclass(frozen=True, slots=True)
class Node:
    """An operator with the names of what it reads."""

    name: str
    operator: Operator
    inputs: tuple[str, ...]


class Program:
    """Operators on one table, each after what it reads.

    Parameters
    ----------
    width : int
        Columns of the table.
    columns : sequence of str, or None
        Their names, where the model knows them.
    nodes : iterable of Node
        Nodes, each after its inputs.
    outputs : mapping of str to Output
        By the name of the library's method, as ``"predict_proba"``. Nodes that no output needs are left out.

    Raises
    ------
    ProgramError
        A name comes twice or is not there yet, an operator does not fit its inputs, or there is no output.

    Examples
    --------
    >>> import numpy as np
    >>> from optimizer.compiling import Arithmetic
    >>> halved = Node("halved", Arithmetic("divide", np.float64([2, 2])), ("input",))
    >>> program = Program(2, None, [halved], {"transform": Output("halved")})
    >>> print(program.explain())
    2 columns -> transform (2 columns)
      halved = Arithmetic(kind='divide', rounded=False, operand (2,)) of input
    """

    def __init__(
        self, width: int, columns: Iterable[str] | None, nodes: Iterable[Node], outputs: Mapping[str, Output]
    ) -> None:
        self.width = int(width)
        self.columns = None if columns is None else tuple(columns)
        if self.columns is not None and len(self.columns) != self.width:
            raise ProgramError(f"{len(self.columns)} names for {self.width} columns")
        if not outputs:
            raise ProgramError("a program without an output")
        self.outputs = dict(outputs)
        self.nodes = _needed(tuple(nodes), {output.node for output in self.outputs.values()})
        self.widths = {INPUT: self.width}
        for node in self.nodes:
            self._enter(node)
        for name, output in self.outputs.items():
            if output.node not in self.widths:
                raise ProgramError(f"output {name!r} is to come from {output.node!r}, which is not in the program")
            output.check(name, self.widths[output.node])

    def _enter(self, node: Node) -> None:
        unknown = [name for name in node.inputs if name not in self.widths]
        if unknown or node.name in self.widths:
            raise ProgramError(f"node {node.name!r} comes twice" if not unknown else f"{node.name!r} reads {unknown}")
        arity = node.operator.arity
        if (not node.inputs and arity != 0) or (arity is not None and len(node.inputs) != arity):
            raise ProgramError(f"{node.operator.explain()} takes {arity} inputs, not {len(node.inputs)}")
        if node.operator.host:
            outside = [
                column
                for column in getattr(node.operator, "columns", np.zeros(0)).tolist()
                if not 0 <= column < self.width
            ]
            if outside:
                raise ProgramError(f"{node.name!r} reads columns {outside} of {self.width}")
        self.widths[node.name] = node.operator.width([self.widths[name] for name in node.inputs])

    def only(self, names: Iterable[str]) -> Program:
        """Keep some of the outputs, and the nodes that these need."""
        return Program(self.width, self.columns, self.nodes, {name: self.outputs[name] for name in names})

    @property
    def host(self) -> tuple[Node, ...]:
        """Nodes that the host runs, in the order in which the tensor program takes their results."""
        return tuple(node for node in self.nodes if node.operator.host)

    @property
    def numeric(self) -> frozenset[int]:
        """Columns of the input that are read as numbers; of the others, :attr:`host` reads some."""
        wanted = {name: set[int]() for name in self.widths}
        for output in self.outputs.values():
            wanted[output.node] |= set(range(self.widths[output.node]))
        for node in reversed(self.nodes):
            first = 0
            for name in node.inputs:
                width = self.widths[name]
                if isinstance(node.operator, Cast | ReadAs):
                    wanted[name] |= wanted[node.name]
                elif isinstance(node.operator, Select):
                    wanted[name] |= {int(node.operator.columns[column]) for column in wanted[node.name]}
                elif isinstance(node.operator, Concatenate):
                    wanted[name] |= {column - first for column in wanted[node.name] if 0 <= column - first < width}
                else:
                    wanted[name] |= set(range(width))
                first += width
        return frozenset(wanted[INPUT])

    @property
    def categories(self) -> dict[int, frozenset[type]]:
        """Columns of the input that are looked up, and the types of the values that the models know in them."""
        kinds_of: dict[int, frozenset[type]] = {}
        for node in self.host:
            if isinstance(node.operator, Bag):
                column = int(node.operator.columns[0])
                kinds_of[column] = kinds_of.get(column, frozenset()) | {node.operator.entries}
            elif isinstance(node.operator, Encode):
                for column, vocabulary in zip(node.operator.columns.tolist(), node.operator.vocabularies, strict=True):
                    kinds = {type(category) for category in vocabulary if category is not None}
                    kinds_of[column] = kinds_of.get(column, frozenset()) | kinds
        return {column: _told(kinds) for column, kinds in kinds_of.items()}

    @property
    def digest(self) -> str:
        """SHA-256 of the document and all arrays: 64 hexadecimal digits."""
        document, arrays = self.document()
        seen = hashlib.sha256(json.dumps(document, sort_keys=True).encode())
        for name in sorted(arrays):
            array = np.ascontiguousarray(arrays[name])
            seen.update(f"{name} {array.dtype.str} {array.shape}".encode())
            seen.update(array.tobytes())
        return seen.hexdigest()

    def document(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the program as a JSON document, and its arrays by name."""
        arrays = {f"{node.name}/{name}": value for node in self.nodes for name, value in node.operator.arrays().items()}
        return {
            "version": _VERSION,
            "width": self.width,
            "columns": None if self.columns is None else list(self.columns),
            "nodes": [
                {
                    "name": node.name,
                    "operator": type(node.operator).__name__,
                    "inputs": list(node.inputs),
                    "numbers": _plain(node.operator.numbers()),
                }
                for node in self.nodes
            ],
            "outputs": {name: output.document() for name, output in self.outputs.items()},
        }, arrays

    @classmethod
    def of_document(cls, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Program:
        """Rebuild a program from the result of :meth:`document`.

        Raises
        ------
        ProgramError
            The document has another version, is damaged, or contains an unknown operator.
        """
        if document.get("version") != _VERSION:
            raise ProgramError(f"a program of version {document.get('version')!r}; this package reads {_VERSION}")
        try:
            nodes = [_node(entry, arrays) for entry in document["nodes"]]
            outputs = {name: Output.of_document(entry) for name, entry in document["outputs"].items()}
            return cls(document["width"], document["columns"], nodes, outputs)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise ProgramError(f"a damaged program: {error!r}") from error

    def explain(self) -> str:
        """Describe the operators, one a line."""
        outputs = ", ".join(f"{name} ({self.widths[output.node]} columns)" for name, output in self.outputs.items())
        lines = [f"{self.width} columns -> {outputs}"]
        lines += [f"  {node.name} = {node.operator.explain()} of {', '.join(node.inputs)}" for node in self.nodes]
        return "\n".join(lines)


def _told(kinds: frozenset[type]) -> frozenset[type]:
    # NaN is a float, and stands for missing among texts too.
    return kinds - {float} if kinds & {str, bytes} else kinds


def _needed(nodes: tuple[Node, ...], wanted: set[str]) -> tuple[Node, ...]:
    kept = []
    for node in reversed(nodes):
        if node.name in wanted:
            kept.append(node)
            wanted |= set(node.inputs)
    return tuple(reversed(kept))


def _plain(numbers: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _written(value) for name, value in numbers.items()}


def _written(value: Any) -> Any:
    # JSON has neither NaN nor infinities: a number is written as its repr, which reads back to the same bits.
    if isinstance(value, float):
        return {"float": repr(value)}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    return [_written(item) for item in value] if isinstance(value, list | tuple) else value


def _read(value: Any) -> Any:
    if isinstance(value, dict):
        return float(value["float"]) if "float" in value else bytes.fromhex(value["bytes"])
    return tuple(_read(item) for item in value) if isinstance(value, list) else value


def _node(entry: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Node:
    kind = OPERATORS.get(entry["operator"])
    if kind is None:
        raise ProgramError(
            f"operator must be one that this release runs, got {entry['operator']!r}. Score the model with its own "
            "library, or compile it again with the release that reads the file."
        )
    numbers = {name: _read(value) for name, value in entry["numbers"].items()}
    node_arrays = {
        key.partition("/")[2]: value for key, value in arrays.items() if key.partition("/")[0] == entry["name"]
    }
    return Node(entry["name"], kind.build(numbers, node_arrays), tuple(entry["inputs"]))
