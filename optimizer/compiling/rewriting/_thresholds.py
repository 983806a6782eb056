"""Thresholds of trees pulled back through scalers: a tree compares what the scaler read, and the scaler is gone.

``scaled(x) <= t`` and ``x <= t'`` are the same for every float, where t' is the greatest float with ``scaled(x) <= t``,
found by bisection over the floats with the scaler's own rounding. So leaves are equal bit by bit. The scaler has to
rise, and to be rounded in one way everywhere: sums, products, quotients and casts are, logarithms are not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling._arithmetic import Arithmetic, Cast, Clip
from optimizer.compiling._columns import Finite
from optimizer.compiling._lookups import Replace
from optimizer.compiling._program import INPUT
from optimizer.compiling._trees import Trees
from optimizer.compiling.rewriting._checks import check_before
from optimizer.compiling.rewriting._constants import OPERATIONS
from optimizer.compiling.rewriting._ranges import ranges_of
from optimizer.compiling.rewriting._rebuild import Rebuild, Rewrite
from optimizer.compiling.rewriting._types import FLOATS, types_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from optimizer.compiling._operator import Operator
    from optimizer.compiling._program import Node, Program

__all__ = ["pull_thresholds"]

# Splits beyond which a scaler takes no time beside the trees, and bisection takes seconds.
_MOST = 2**20
_STEPS = 66  # a few more than the bits of float64


@dataclass(frozen=True, slots=True)
class _Pulled:
    """Trees that read an earlier table, the checks between, and the nodes that are skipped."""

    trees: Trees
    table: str
    checks: tuple[Finite, ...]
    skipped: tuple[str, ...]


def pull_thresholds(program: Program, dtype: str) -> tuple[Program, list[Rewrite]]:
    """Let trees read the input of scalers that nothing else reads."""
    chains = _Chains(program, dtype)
    pulled = {node.name: chains.pull(node) for node in program.nodes if isinstance(node.operator, Trees)}
    chosen = _drop_read(program, {name: change for name, change in pulled.items() if change is not None})
    build, places, applied = Rebuild(program), {INPUT: INPUT}, []
    for node in program.nodes:
        change = chosen.get(node.name)
        if change is None:
            places[node.name] = build.add(node.operator, *(places[name] for name in node.inputs), name=node.name)
            continue
        table = places[change.table]
        for check in change.checks:
            table = build.add(check, table)
        places[node.name] = build.add(change.trees, table, name=node.name)
        scalers = ", ".join(reversed(change.skipped))
        applied.append(Rewrite("thresholds pulled back", node.name, f"reads {change.table} without {scalers}"))
    return build.program({name: places[name] for name in (output.node for output in program.outputs.values())}), applied


def _drop_read(program: Program, pulled: Mapping[str, _Pulled]) -> dict[str, _Pulled]:
    """Keep the changes whose scalers have no other readers, since other scalers would still be computed."""
    chosen = dict(pulled)
    while True:
        gone = {name for change in chosen.values() for name in change.skipped} | set(chosen)
        kept = {output.node for output in program.outputs.values()}
        kept |= {name for node in program.nodes if node.name not in gone for name in node.inputs}
        stay = {name: change for name, change in chosen.items() if not kept & set(change.skipped)}
        if len(stay) == len(chosen):
            return stay
        chosen = stay


class _Chains:
    """Scalers, casts and checks before trees, one after the other."""

    def __init__(self, program: Program, dtype: str) -> None:
        self.types = types_of(program, dtype)
        self.ranges = ranges_of(program, self.types)
        self.nodes = {node.name: node for node in program.nodes}

    def pull(self, node: Node) -> _Pulled | None:
        """Return trees that read the table before their scalers, or ``None`` where there is none to skip."""
        trees: Any = node.operator
        inner = np.flatnonzero(trees.left != np.arange(len(trees.left)))
        columns, table = trees.feature[inner].astype(np.int64), node.inputs[0]
        start = self.types[table]
        if start is None or start not in FLOATS or len(inner) > _MOST or not self._reads_scaler(table):
            return None
        # The comparison is in the type of the thresholds.
        limits = _limits_before(Cast(trees.threshold.dtype.name), columns, trees.threshold[inner], start)
        checks: list[Finite] = []
        skipped: list[str] = []
        best: tuple[str, NDArray[Any], tuple[Finite, ...], tuple[str, ...]] | None = None
        while limits is not None and table in self.nodes:
            operator, before = self.nodes[table].operator, (*self.nodes[table].inputs, "")[0]
            skipped.append(table)
            dtype = self.types.get(before)
            if isinstance(operator, Finite):
                checks.append(operator)
            else:
                earlier = [check_before(check, operator, dtype, self.ranges[table]) for check in checks]
                limits = None if dtype not in FLOATS else _limits_before(operator, columns, limits, str(dtype))
                if limits is None or None in earlier:
                    break
                checks = [check for check in earlier if check is not None]
                if not isinstance(operator, Cast):
                    best = before, limits, tuple(checks), tuple(skipped)
            table = before
        if best is None:
            return None
        table, limits, moved, gone = best
        threshold = np.full(len(trees.threshold), np.inf, limits.dtype)
        threshold[inner] = limits
        return _Pulled(replace(trees, threshold=threshold), table, moved[::-1], gone)

    def _reads_scaler(self, table: str) -> bool:
        above = self.nodes.get(table)
        while above is not None and isinstance(above.operator, Cast | Finite):
            above = self.nodes.get(above.inputs[0])
        return above is not None and isinstance(above.operator, Arithmetic | Clip | Replace)


def _limits_before(
    operator: Operator, columns: NDArray[np.int64], limits: NDArray[Any], dtype: str
) -> NDArray[Any] | None:
    """Return the greatest floats whose results are at most the limits; ``None`` where results do not rise with them."""
    compute = _rising_function(operator, columns, dtype)
    return None if compute is None else _greatest(lambda x: compute(x) <= limits, len(columns), dtype)


def _rising_function(
    operator: Operator, columns: NDArray[np.int64], dtype: str
) -> Callable[[NDArray[Any]], NDArray[Any]] | None:
    """Return an operator on some columns as a function of a number for each; ``None`` if one of them may fall."""
    if isinstance(operator, Cast):
        return (lambda x: x.astype(operator.dtype)) if operator.dtype in FLOATS else None
    if isinstance(operator, Clip):
        return lambda x: np.clip(x, operator.low, operator.high).astype(dtype)
    if isinstance(operator, Replace):
        low, high, value = (bounds[columns] for bounds in (operator.low, operator.high, operator.value))
        if not ((low > high) | ((value >= low) & (value <= high))).all():
            return None
        return lambda x: np.where((x >= low) & (x <= high), value, x).astype(dtype)
    return _rising_arithmetic(operator, columns, dtype) if isinstance(operator, Arithmetic) else None


def _rising_arithmetic(
    operator: Arithmetic, columns: NDArray[np.int64], dtype: str
) -> Callable[[NDArray[Any]], NDArray[Any]] | None:
    if operator.operand.dtype.name not in FLOATS:
        return None
    operand = operator.operand.astype(dtype if operator.rounded else operator.operand.dtype)[columns]
    if operator.kind in {"multiply", "divide"} and not (operand > 0).all():
        return None
    operation = OPERATIONS[operator.kind]
    return lambda x: operation(x, operand).astype(dtype)


def _greatest(accepts: Callable[[NDArray[Any]], NDArray[np.bool_]], count: int, dtype: str) -> NDArray[Any]:
    """Return the greatest float that is accepted at each of some places, by bisection; minus infinity for none."""
    whole, kind = (np.int32, np.float32) if dtype == "float32" else (np.int64, np.float64)

    def floats(order: NDArray[np.int64]) -> NDArray[Any]:
        # Magnitudes of floats have the order of their bits.
        magnitudes: Any = np.abs(order).astype(whole).view(kind)
        numbers: NDArray[Any] = np.where(order < 0, -magnitudes, magnitudes)
        return numbers

    last = int(np.array(np.inf, kind).view(whole))
    low, high = np.full(count, -last, np.int64), np.full(count, last, np.int64)
    with np.errstate(all="ignore"):
        for _ in range(_STEPS):
            # The mean, rounded up, without their sum, which may be beyond int64.
            middle = (low | high) - ((low ^ high) >> 1)
            yes = accepts(floats(middle))
            low, high = np.where(yes, middle, low), np.where(yes, high, np.maximum(middle - 1, low))
    return floats(low).astype(kind)
