"""Thresholds of trees pulled back through scalers: a tree compares what the scaler read, and the scaler is gone.

``scaled(x) <= t`` and ``x <= t'`` are the same for every float, where t' is the greatest float with ``scaled(x) <= t``,
found by bisection over the floats with the scaler's own rounding. So leaves are equal bit by bit. The scaler has to
rise, and to be rounded in one way everywhere: sums, products, quotients, casts and bounds are, logarithms are not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling._arithmetic import Cast
from optimizer.compiling._columns import Finite
from optimizer.compiling._functions import Within
from optimizer.compiling._program import INPUT
from optimizer.compiling._trees import Trees

from ._checks import check_of
from ._facts import Facts, facts_of, rule_of
from ._floats import greatest
from ._monotone import FLOATS, monotone
from ._rebuild import Rebuild, Rewrite
from ._types import types_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from optimizer.compiling._operator import Operator
    from optimizer.compiling._program import Node, Program

__all__ = ["pull_thresholds"]

# Splits. Beyond, a scaler takes no time beside the trees, and bisection takes seconds.
_MOST = 2**20


@dataclass(frozen=True, slots=True)
class _Pulled:
    """Trees that read an earlier table, the checks that were between, and the nodes that they do without."""

    trees: Trees
    table: str
    checks: tuple[Operator, ...]
    skipped: tuple[str, ...]


def pull_thresholds(program: Program, dtype: str) -> tuple[Program, list[Rewrite]]:
    """Let trees read what scalers read, where nobody else reads the scalers."""
    types = types_of(program, dtype)
    facts = facts_of(program, types)
    nodes = {node.name: node for node in program.nodes}
    found = {
        node.name: _pulled(node, nodes, types, facts) for node in program.nodes if isinstance(node.operator, Trees)
    }
    chosen = _unread(program, {name: own for name, own in found.items() if own is not None})
    build, places, applied = Rebuild(program), {INPUT: INPUT}, []
    for node in program.nodes:
        own = chosen.get(node.name)
        if own is None:
            places[node.name] = build.add(node.operator, *(places[name] for name in node.inputs), name=node.name)
            continue
        table = places[own.table]
        for check in own.checks:
            table = build.add(check, table)
        places[node.name] = build.add(own.trees, table, name=node.name)
        scalers = ", ".join(reversed(own.skipped))
        applied.append(Rewrite("thresholds pulled back", node.name, f"reads {own.table} without {scalers}"))
    return build.program({name: places[name] for name in (output.node for output in program.outputs.values())}), applied


def _unread(program: Program, found: Mapping[str, _Pulled]) -> dict[str, _Pulled]:
    """Those whose scalers are read by nobody else: else they would be computed all the same."""
    chosen = dict(found)
    while True:
        gone = {name for own in chosen.values() for name in own.skipped} | set(chosen)
        kept = {output.node for output in program.outputs.values()}
        kept |= {name for node in program.nodes if node.name not in gone for name in node.inputs}
        # A Trees node reads the scaler too, by another way than that of its chain: as the leaves that are linear.
        stay = {name: own for name, own in chosen.items() if not kept & set(own.skipped)}
        if len(stay) == len(chosen):
            return stay
        chosen = stay


def _pulled(
    node: Node, nodes: Mapping[str, Node], types: Mapping[str, str | None], facts: Mapping[str, Facts]
) -> _Pulled | None:
    trees: Any = node.operator
    inner = np.flatnonzero(trees.left != np.arange(len(trees.left)))
    columns, width = trees.feature[inner].astype(np.int64), trees.features
    limits, kind = trees.threshold[inner], trees.threshold.dtype.name
    asked: list[tuple[Operator, Facts]] = []
    skipped: list[str] = []
    table, best = node.inputs[0], None
    start = types[table]
    if start not in FLOATS or len(inner) > _MOST or not _reads_a_scaler(node, nodes):
        return None
    # The comparison is in the type of the thresholds.
    limits = _back(Cast(kind), columns, limits, start, facts[table])
    while limits is not None and table in nodes:
        operator, before = nodes[table].operator, nodes[table].inputs[0] if nodes[table].inputs else ""
        skipped.append(table)
        if isinstance(operator, Finite | Within):
            rule = rule_of(operator, width, types[before])
            if rule is None:
                break
            asked.append((operator, rule))
        else:
            every = monotone(operator, np.arange(width), types.get(before))
            if every is None or not every.valid.all():
                break
            asked = [(check, Facts(*every.back(rule.low, rule.high), rule.nan)) for check, rule in asked]
            if any(np.isnan(rule.low).any() or np.isnan(rule.high).any() for _, rule in asked):
                break
            limits = _back(operator, columns, limits, str(types[before]), facts[before])
            if limits is not None and not isinstance(operator, Cast):
                best = before, limits, tuple(asked), tuple(skipped)
        table = before
    if best is None:
        return None
    table, limits, checks, gone = best
    threshold = np.full(len(trees.threshold), np.inf, limits.dtype)
    threshold[inner] = limits
    held = tuple(check_of(check, rule, types[table]) for check, rule in reversed(checks))
    return _Pulled(replace(trees, threshold=threshold), table, held, gone)


def _reads_a_scaler(node: Node, nodes: Mapping[str, Node]) -> bool:
    """Whether more than casts and checks lies before the trees: bisection for nothing takes seconds."""
    above = nodes.get(node.inputs[0])
    while above is not None and isinstance(above.operator, Cast | Finite | Within):
        above = nodes.get(above.inputs[0])
    return above is not None


def _back(
    operator: Operator, columns: NDArray[np.int64], limits: NDArray[Any], dtype: str, told: Facts
) -> NDArray[Any] | None:
    """Give the greatest floats whose results are at most the limits."""
    step = monotone(operator, columns, dtype)
    if step is None or not (step.valid & step.rising).all():
        return None

    def passes(x: NDArray[Any]) -> NDArray[np.bool_]:
        with np.errstate(all="ignore"):
            return np.asarray(step.compute(x) <= limits)

    found = greatest(passes, len(columns), dtype)
    nothing = np.isnan(found)
    if (nothing & ~np.isfinite(told.low[columns])).any():
        return None  # minus infinity itself goes to the right: no threshold says that
    return np.where(nothing, -np.inf, found).astype(dtype)
