"""How much slower the planner's choice of a tree strategy is than the best one: depth x trees x rows (Figure 5.9)."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from benchmarks.compiling._models import drawn
from benchmarks.compiling._times import spent
from optimizer.compiling import STRATEGIES, UnsupportedOperatorError, make_plan
from udfs.compiling.torch import Engine, machine_costs
from vista_spark import compile_pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from optimizer.compiling import Program

__all__ = ["Cell", "measured_cells", "regret"]

_DEPTHS, _TREES, _ROWS = (3, 5, 8, 12), (10, 100), (1, 1_000, 10_000)
_FITTED = 3_000
_GEMM_DEPTH = 6


class Cell(NamedTuple):
    """One forest at one number of rows.

    Parameters
    ----------
    depth, trees, rows : int
    seconds : dict of str to float
        CPU seconds by strategy.
    chosen : str
        The planner's strategy.
    predicted : float
        Its predicted seconds.
    heuristic : str
        What section 5.5.1 would choose.
    """

    depth: int
    trees: int
    rows: int
    seconds: dict[str, float]
    chosen: str
    predicted: float
    heuristic: str


def regret(seconds: Mapping[str, float], chosen: str) -> float:
    """The share of time that a choice takes above the best one."""
    return seconds[chosen] / min(seconds.values()) - 1


def measured_cells(repeats: int = 3) -> Iterator[Cell]:
    """Time every strategy on a grid of forests, eagerly, on one thread."""
    table, labels = drawn(max(_ROWS))
    for depth, trees in product(_DEPTHS, _TREES):
        model = RandomForestClassifier(trees, max_depth=depth, random_state=0).fit(table[:_FITTED], labels[:_FITTED])
        program = compile_pipeline(model).program.only(["predict_proba"])
        plan = make_plan(program, costs=machine_costs())
        heuristic = next(iter(make_plan(program).strategies.values()))
        engines = dict(_engines(program, depth))
        for rows in _ROWS:
            given = np.ascontiguousarray(table[:rows])
            seconds = {
                name: spent(lambda one=one, given=given: one.run(given), repeats).cpu for name, one in engines.items()
            }
            chosen = next(iter(plan.strategies_for(rows).values()))
            yield Cell(depth, trees, rows, seconds, chosen, plan.eager_seconds(rows), heuristic)


def _engines(program: Program, depth: int) -> Iterator[tuple[str, Engine]]:
    for strategy in STRATEGIES:
        # GEMM multiplies by splits x leaves: deeper, it takes minutes and is never near.
        if strategy == "gemm" and depth > _GEMM_DEPTH:
            continue
        try:
            yield strategy, Engine(program, strategy, threads=1)
        except UnsupportedOperatorError:
            continue
