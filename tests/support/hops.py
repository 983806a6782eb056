"""Workloads for the scheduler's tests, and their optima by exhaustive search."""

from __future__ import annotations

import itertools
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

from benchmarks.hopper.schedules import HopWorkload

if TYPE_CHECKING:
    from optimizer.hopper import Unit

FIGURE_3_5 = HopWorkload(np.repeat([[6.0], [3], [3], [3], [6]], 3, axis=1) / 3, configs=tuple("ABCDE"))


@st.composite
def workloads(draw: st.DrawFn, configs: int = 6, workers: int = 4, *, replicas: bool = False) -> HopWorkload:
    """Draw a workload with unit times in whole seconds, so that sums are exact."""
    rows, columns = draw(st.integers(1, configs)), draw(st.integers(1, workers))
    seconds = st.lists(st.integers(1, 9), min_size=columns, max_size=columns)
    times = np.array(draw(st.lists(seconds, min_size=rows, max_size=rows)), dtype=float)
    if not replicas:
        return HopWorkload(times)
    names = [f"w{column}" for column in range(columns)]
    holders = st.lists(st.sampled_from(names), min_size=1, unique=True)
    availability = draw(st.lists(holders, min_size=1, max_size=workers))
    return HopWorkload(times, availability={10 * place: names for place, names in enumerate(availability)})


def optimum(workload: HopWorkload) -> float:
    """Find the shortest makespan: try every order of starting units, on every worker that may run them."""
    table = workload.table()
    units = tuple(itertools.product(workload.configs, workload.partitions))

    @cache
    def best(remaining: frozenset[tuple[str, int]], busy_until: tuple[tuple[str, float], ...]) -> float:
        if not remaining:
            return 0.0
        until = dict(busy_until)
        makespan = np.inf
        for unit in remaining:
            config, partition = unit
            for worker in workload.availability[partition]:
                end = max(until.get(f"config {config}", 0.0), until.get(worker, 0.0)) + table[config, worker]
                after = until | {f"config {config}": end, worker: end}
                makespan = min(makespan, max(end, best(remaining - {unit}, tuple(sorted(after.items())))))
        return makespan

    return best(frozenset(units), ())


def task_parallel_optimum(workload: HopWorkload) -> float:
    """Find the shortest makespan if every configuration trains on one worker, which has all the data."""
    makespans = []
    for worker_of in itertools.product(range(len(workload.workers)), repeat=len(workload.configs)):
        load = np.zeros(len(workload.workers))
        np.add.at(load, list(worker_of), [workload.times[row, column] for row, column in enumerate(worker_of)])
        makespans.append(load.max() * len(workload.partitions))
    return min(makespans)


def orders(log: list[Unit]) -> dict[str, list[int]]:
    """Return the visit order of each configuration from a log of units in the order in which they finished."""
    visits: dict[str, list[int]] = {}
    for unit in log:
        visits.setdefault(unit.config, []).append(unit.partition)
    return visits
