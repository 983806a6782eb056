"""Scalers into linear layers: ``(x - m) / s @ W`` becomes ``(x - m) @ (W / s)``.

Only factors go in. A shift stays: ``x @ W - m @ W`` cancels where x is near m, and loses every digit of a time stamp.
With a factor each term of a sum keeps its size, and is rounded three times in place of twice: the sum differs by no
more than about two units in the last place of its terms, which is less than the order of a matrix product changes. So
a result is within 1e-6 as long as the sum of its terms' magnitudes is below a thousand million times the result; and
the original has no more digits either.

A factor goes in only where rows are held to finite numbers, and only in float64: a table of float32 is rounded after
each step, and the library's result shows it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optimizer.compiling._arithmetic import Arithmetic, Linear
from optimizer.compiling._columns import Finite
from optimizer.compiling._program import INPUT
from optimizer.compiling.rewriting._checks import check_before
from optimizer.compiling.rewriting._ranges import ranges_of
from optimizer.compiling.rewriting._rebuild import Rebuild, Rewrite
from optimizer.compiling.rewriting._types import types_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from optimizer.compiling._operator import Operator
    from optimizer.compiling._program import Node, Program

__all__ = ["fold_scalers"]

_DOUBLE = "float64"
_FINITE = Finite("as given", nan=False, who="")
# Weights, factors and their products of these magnitudes are far from the ends of float64.
_SMALL, _LARGE = 1e-100, 1e100


def fold_scalers(program: Program, dtype: str) -> tuple[Program, list[Rewrite]]:
    """Take factors into the weights of the linear layers that alone read them."""
    chains = _Chains(program, dtype)
    build, places, applied = Rebuild(program), {INPUT: INPUT}, []
    for node in program.nodes:
        folded = chains.fold(node)
        if folded is None:
            places[node.name] = build.add(node.operator, *(places[name] for name in node.inputs), name=node.name)
            continue
        table = places[folded.table]
        if folded.check is not None:
            table = build.add(folded.check, table)
        places[node.name] = build.add(folded.linear, table, name=node.name)
        applied.append(Rewrite("scaler folded", node.name, f"has the factors of {folded.scaler} in its weights"))
    return build.program({name: places[name] for name in (output.node for output in program.outputs.values())}), applied


@dataclass(frozen=True, slots=True)
class _Folded:
    """A linear layer with the factors of a scaler, what it reads, and the check that was between them."""

    linear: Linear
    table: str
    scaler: str
    check: Operator | None


class _Chains:
    """Scalers, checks and linear layers one after the other."""

    def __init__(self, program: Program, dtype: str) -> None:
        self.types = types_of(program, dtype)
        self.ranges = ranges_of(program, self.types)
        self.nodes = {node.name: node for node in program.nodes}
        self.readers = Counter(name for node in program.nodes for name in node.inputs)
        self.readers.update(output.node for output in program.outputs.values())

    def fold(self, node: Node) -> _Folded | None:
        """Return the layer that takes the place of a linear one; ``None`` where it stays."""
        linear = node.operator
        above = self.nodes.get(node.inputs[0]) if isinstance(linear, Linear) else None
        check = above if above is not None and isinstance(above.operator, Finite) else None
        if check is not None and self.readers[check.name] == 1:
            above = self.nodes.get(check.inputs[0])
        if above is None or not isinstance(linear, Linear) or not isinstance(above.operator, Arithmetic):
            return None
        table = above.inputs[0]
        if self.readers[above.name] != 1 or self.types[table] != _DOUBLE:
            return None
        weights = _weights(above.operator, linear)
        if weights is None:
            return None
        read, scaled = self.ranges[table], self.ranges[above.name]
        nan, infinite, moved = read.nan, read.infinite | scaled.beyond(_FINITE, _DOUBLE), None
        if check is not None:
            moved = check_before(check.operator, above.operator, _DOUBLE, scaled)  # type: ignore[arg-type]
            if moved is None:
                return None
            nan, infinite = nan & moved.nan, infinite & moved.infinite
        # Numbers that may be NaN or infinite, before or after the factor, would come out otherwise.
        if nan.any() or infinite.any():
            return None
        return _Folded(Linear(weights, linear.bias), table, above.name, moved)


def _weights(scaler: Arithmetic, linear: Linear) -> NDArray[np.float64] | None:
    if scaler.kind not in {"multiply", "divide"} or linear.weights.dtype != np.float64:
        return None
    if scaler.operand.dtype != np.float64 or not _ordinary(scaler.operand) or not (scaler.operand != 0).all():
        return None
    operand = scaler.operand[:, None]
    with np.errstate(all="ignore"):
        weights = linear.weights * operand if scaler.kind == "multiply" else linear.weights / operand
    return weights if _ordinary(linear.weights) and _ordinary(weights) else None


def _ordinary(values: NDArray[np.float64]) -> bool:
    sizes = np.abs(values[values != 0])
    return bool(((sizes > _SMALL) & (sizes < _LARGE)).all())
