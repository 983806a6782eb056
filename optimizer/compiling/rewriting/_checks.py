"""Checks, pulled back through monotone operators: the same rows are refused, before their columns are computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling._columns import Concatenate, Finite, Impute, Select
from optimizer.compiling._curves import Monomials
from optimizer.compiling._functions import Within
from optimizer.compiling._guards import Held
from optimizer.compiling._program import INPUT

from ._facts import Facts, rule_of
from ._monotone import monotone
from ._products import pulled_products

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from optimizer.compiling._operator import Operator
    from optimizer.compiling._program import Node, Program

__all__ = ["Asked", "check_of", "pulled_back"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a check asks of some columns of a table.

    Parameters
    ----------
    table : str
        The node, or the program's input.
    columns : int64 array
        Ascending.
    rule : Facts
        For these columns.
    """

    table: str
    columns: NDArray[np.int64]
    rule: Facts


class _Back:
    """Pull what is asked back, table by table."""

    def __init__(self, program: Program, types: Mapping[str, str | None], facts: Mapping[str, Facts]) -> None:
        self.nodes = {node.name: node for node in program.nodes}
        self.types, self.facts, self.widths = types, facts, program.widths
        self.found: list[tuple[str, NDArray[np.int64], Facts]] = []

    def pull(self, table: str, columns: NDArray[np.int64], rule: Facts) -> None:
        """Go on from a table; a column may come several times."""
        open_ = ~self.facts[table].of(columns).implies(rule)
        columns, rule = columns[open_], rule.of(open_)
        if not len(columns):
            return
        if table == INPUT:
            self.found.append((table, columns, rule))
            return
        node = self.nodes[table]
        if isinstance(node.operator, Finite | Within):
            self.pull(node.inputs[0], columns, rule)
        elif isinstance(node.operator, Select):
            self.pull(node.inputs[0], np.asarray(node.operator.columns, np.int64)[columns], rule)
        elif isinstance(node.operator, Concatenate):
            first = 0
            for name in node.inputs:
                own = (columns >= first) & (columns < first + self.widths[name])
                self.pull(name, columns[own] - first, rule.of(own))
                first += self.widths[name]
        else:
            self._through(node, columns, rule)

    def _through(self, node: Node, columns: NDArray[np.int64], rule: Facts) -> None:
        dtype = self.types[node.inputs[0]] if node.inputs else None
        if isinstance(node.operator, Monomials):
            asked = pulled_products(node.operator, columns, rule, self.facts[node.inputs[0]], dtype)
            if asked is None:
                self.found.append((node.name, columns, rule))
            else:
                self.pull(node.inputs[0], *asked)
            return
        if isinstance(node.operator, Impute):
            able, before = _unfilled(node.operator, columns, rule, dtype)
        else:
            able, before = np.zeros(len(columns), np.bool_), rule
            step = monotone(node.operator, columns, dtype)
            if step is not None:
                low, high = step.back(rule.low, rule.high)
                able = step.valid & (low <= high)  # NaN, where nothing passes
                before = Facts(low, high, rule.nan)
        if able.any():
            self.pull(node.inputs[0], columns[able], before.of(able))
        if not able.all():
            self.found.append((node.name, columns[~able], rule.of(~able)))


def _unfilled(
    operator: Impute, columns: NDArray[np.int64], rule: Facts, dtype: str | None
) -> tuple[NDArray[np.bool_], Facts]:
    """What fills passes the rule, so what it fills passes too."""
    with np.errstate(over="ignore"):
        fills = operator.values[columns].astype(dtype or np.float64).astype(np.float64)
    passes = (fills >= rule.low) & (fills <= rule.high)
    if np.isnan(operator.missing):
        return passes, Facts(rule.low, rule.high, np.ones(len(columns), np.bool_))
    mark = float(np.asarray(operator.missing, dtype or np.float64))
    return passes & (mark >= rule.low) & (mark <= rule.high), rule


def pulled_back(
    program: Program, types: Mapping[str, str | None], facts: Mapping[str, Facts], table: str, rule: Facts
) -> list[Asked]:
    """Give what has to be asked of earlier tables, so that the same rows pass a rule for a table.

    What earlier checks promise is not asked again.
    """
    back = _Back(program, types, facts)
    back.pull(table, np.arange(len(rule.nan)), rule)
    merged: dict[tuple[str, bool], list[tuple[NDArray[np.int64], Facts]]] = {}
    for source, columns, own in back.found:
        for nan in (False, True):
            some = own.nan == nan
            if some.any():
                merged.setdefault((source, nan), []).append((columns[some], own.of(some)))
    return [_merged(source, nan, parts) for (source, nan), parts in merged.items()]


def _merged(source: str, nan: bool, parts: list[tuple[NDArray[np.int64], Facts]]) -> Asked:
    columns: NDArray[Any] = np.concatenate([own for own, _ in parts])
    found = np.unique(columns)
    low, high = np.full(len(found), -np.inf), np.full(len(found), np.inf)
    places = np.searchsorted(found, columns)
    np.maximum.at(low, places, np.concatenate([own.low for _, own in parts]))
    np.minimum.at(high, places, np.concatenate([own.high for _, own in parts]))
    return Asked(source, found, Facts(low, high, np.full(len(found), nan)))


def check_of(operator: Operator, rule: Facts, dtype: str | None) -> Operator:
    """Give a check of an earlier table, in the place of a :class:`Finite` or a :class:`Within`."""
    nan = bool(rule.nan.all())
    if isinstance(operator, Finite):
        for own in (operator, Finite("as given", nan, operator.who)):
            known = rule_of(own, len(rule.nan), dtype)
            if known is not None and own.nan == nan and known.implies(rule).all() and rule.implies(known).all():
                return own
    reason = operator.reason if isinstance(operator, Finite | Within) else ""
    return (Within if nan else Held)(rule.low, rule.high, reason)
