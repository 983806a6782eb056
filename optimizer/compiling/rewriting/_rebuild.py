"""Builder of rewritten programs: equal nodes once, selections of selections as one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from optimizer.compiling._columns import Concatenate, Select
from optimizer.compiling._program import INPUT, Node, Program
from optimizer.compiling._trees import Trees

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optimizer.compiling._operator import Operator
    from optimizer.compiling._output import Output

__all__ = ["Rebuild", "Rewrite"]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Change of a program."""

    kind: str
    node: str
    text: str

    def explain(self) -> str:
        """Describe the change in a line."""
        return f"{self.kind}: {self.node} {self.text}"


class Rebuild:
    """A program under way, with the names of the one that it comes from."""

    def __init__(self, program: Program) -> None:
        self.original = program
        self.nodes: dict[str, Node] = {}
        self.widths = {INPUT: program.width}
        self.shared: list[tuple[str, str]] = []
        self._known: dict[tuple[bytes, tuple[str, ...]], str] = {}
        self._named = frozenset(node.name for node in program.nodes)
        self._taken = {INPUT, *self._named}

    def add(self, operator: Operator, *inputs: str, name: str = "") -> str:
        """Add an operator unless it is there, and give the name of its result: that of the original if one is given."""
        if isinstance(operator, Select):
            above = self.nodes.get(inputs[0])
            if above is not None and isinstance(above.operator, Select):
                return self.add(Select(above.operator.columns[operator.columns]), *above.inputs, name=name)
            if np.array_equal(operator.columns, np.arange(self.widths[inputs[0]])):
                return inputs[0]
        if isinstance(operator, Concatenate) and len(inputs) == 1:
            return inputs[0]
        # Equal trees were shared when the program was built; to hash a forest again takes longer than all the rest.
        key = (str(id(operator)).encode() if isinstance(operator, Trees) else operator.digest(), inputs)
        if key in self._known:
            # What a rewrite itself has put there is no other part of the model.
            if name and self._known[key] != name and self._known[key] in self._named:
                self.shared.append((name, self._known[key]))
            return self._known[key]
        fresh = name if name and name not in self.nodes else self._fresh(type(operator).__name__.lower())
        self.widths[fresh] = operator.width([self.widths[read] for read in inputs])
        self.nodes[fresh] = Node(fresh, operator, inputs)
        self._known[key] = fresh
        return fresh

    def put_first(self, checks: Sequence[str]) -> None:
        """Put checks of the input, one after the other, before everything else that reads it."""
        last, first = INPUT, {}
        for name in checks:
            first[name] = Node(name, self.nodes[name].operator, (last,))
            last = name
        others = [node for node in self.nodes.values() if node.name not in first]
        read = {node.name: tuple(last if name == INPUT else name for name in node.inputs) for node in others}
        self.nodes = {**first, **{node.name: Node(node.name, node.operator, read[node.name]) for node in others}}
        self._known.clear()

    def below(self, name: str) -> set[str]:
        """Return the names of all nodes that a result is computed from, itself included."""
        names, open_ = {name}, [name]
        while open_:
            node = self.nodes.get(open_.pop())
            more = set(node.inputs) - names if node is not None else set()
            names |= more
            open_ += more
        return names

    def program(self, places: Mapping[str, str]) -> Program:
        """Finish: the results of the original, at other nodes."""
        outputs: dict[str, Output] = {
            name: replace(output, node=places[output.node]) for name, output in self.original.outputs.items()
        }
        return Program(self.original.width, self.original.columns, self.nodes.values(), outputs)

    def _fresh(self, kind: str) -> str:
        number = 1
        while f"{kind}_r{number}" in self._taken:
            number += 1
        self._taken.add(f"{kind}_r{number}")
        return f"{kind}_r{number}"
