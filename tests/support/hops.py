"""Workloads for the scheduler's tests, and optima by trying everything."""

from __future__ import annotations

import itertools
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

from optimizer.hopper import HopWorkload

if TYPE_CHECKING:
    from optimizer.hopper import Unit

FIGURE_3_5 = HopWorkload(np.repeat([[6.0], [3], [3], [3], [6]], 3, axis=1) / 3, configs=tuple("ABCDE"))


@st.composite
def workloads(draw: st.DrawFn, configs: int = 6, workers: int = 4, *, replicas: bool = False) -> HopWorkload:
    """Whole seconds, so that sums are exact."""
    rows, columns = draw(st.integers(1, configs)), draw(st.integers(1, workers))
    seconds = st.lists(st.integers(1, 9), min_size=columns, max_size=columns)
    times = np.array(draw(st.lists(seconds, min_size=rows, max_size=rows)), dtype=float)
    if not replicas:
        return HopWorkload(times)
    names = [f"w{column}" for column in range(columns)]
    holders = st.lists(st.sampled_from(names), min_size=1, unique=True)
    held = draw(st.lists(holders, min_size=1, max_size=workers))
    return HopWorkload(times, availability={10 * place: names for place, names in enumerate(held)})


def optimum(workload: HopWorkload) -> float:
    """The shortest makespan: every order in which units may be started, on every worker that may run them."""
    table = workload.table()
    units = tuple(itertools.product(workload.configs, workload.partitions))

    @cache
    def best(left: frozenset[tuple[str, int]], free: tuple[tuple[str, float], ...]) -> float:
        if not left:
            return 0.0
        until = dict(free)
        found = np.inf
        for unit in left:
            config, partition = unit
            for worker in workload.availability[partition]:
                end = max(until.get(f"config {config}", 0.0), until.get(worker, 0.0)) + table[config, worker]
                then = until | {f"config {config}": end, worker: end}
                found = min(found, max(end, best(left - {unit}, tuple(sorted(then.items())))))
        return found

    return best(frozenset(units), ())


def task_parallel_optimum(workload: HopWorkload) -> float:
    """The shortest makespan if every configuration stays on one worker, which has all the data."""
    loads = []
    for chosen in itertools.product(range(len(workload.workers)), repeat=len(workload.configs)):
        load = np.zeros(len(workload.workers))
        np.add.at(load, list(chosen), [workload.times[row, column] for row, column in enumerate(chosen)])
        loads.append(load.max() * len(workload.partitions))
    return min(loads)


def orders(log: list[Unit]) -> dict[str, list[int]]:
    """Visit orders of units in the order in which they finished."""
    found: dict[str, list[int]] = {}
    for unit in log:
        found.setdefault(unit.config, []).append(unit.partition)
    return found
