"""The scheduling problem as a mixed-integer linear program (equations 3.1 and 3.2)."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from dataclasses import replace
from math import comb
from typing import TYPE_CHECKING, Any, Literal, get_args

from benchmarks.hopper.schedules._schedule import Schedule
from benchmarks.hopper.schedules._simulation import simulate
from optimizer.arguments import choice_error
from optimizer.hopper import POLICIES, HopperError, Placement, Unit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.hopper.schedules._workload import HopWorkload

__all__ = ["Solver", "in_order", "schedule_milp"]

Solver = Literal["highs", "cbc"]

# A makespan this near the lower bound, relative, is the bound: solvers leave as much.
_AT_BOUND = 1e-6


def schedule_milp(
    workload: HopWorkload, seconds: float = 60.0, *, solver: Solver = "highs", max_binaries: int = 10_000
) -> Schedule:
    """Search for the shortest schedule by branch and bound.

    Equation 3.2 has a ``Y`` for each two units of a configuration and a ``Z`` for each two on a worker, twice;
    one of the two suffices. ``V`` is the makespan of a list schedule, the smallest known: every unit of a shorter
    schedule ends by then. The list schedule is returned where the solver finds none that is shorter in time.

    Parameters
    ----------
    workload : HopWorkload
        Without replicas; a worker may hold several partitions.
    seconds : float
        Limit of the solver; then the best schedule so far is taken.
    solver : {"highs", "cbc"}
    max_binaries : int
        The largest program that is solved. 16 configurations on 16 workers take 3,840, 256 on 16 take 552,960.

    Returns
    -------
    Schedule
        With ``optimal`` set if it is proven.

    Raises
    ------
    HopperError
        The program is too large, a partition is on several workers, ``seconds`` is not positive, or the solver is
        unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from benchmarks.hopper.schedules import HopWorkload
    >>> schedule = schedule_milp(HopWorkload(np.array([[2.0, 2.0], [1.0, 2.0]])), seconds=10)
    >>> schedule.makespan, schedule.optimal
    (4.0, True)
    """
    holders = {partition: sorted(held) for partition, held in workload.availability.items()}
    if shared := [partition for partition, held in holders.items() if len(held) > 1]:
        raise HopperError(
            f"partition {shared[0]} is on {len(holders[shared[0]])} workers: equation 3.2 has no replicas; "
            "keep one holder each, or simulate() with them"
        )
    if solver not in get_args(Solver):
        raise HopperError(choice_error("solver", solver, get_args(Solver)))
    if not seconds > 0:
        raise HopperError(f"seconds={seconds}: the solver needs a positive limit")
    units = [(Unit(config, partition), held[0]) for config in workload.configs for partition, held in holders.items()]
    # A pair is of one configuration, or of two on one worker.
    count = len(workload.configs)
    held = Counter(worker for (worker,) in holders.values())
    binaries = count * comb(len(holders), 2)
    binaries += sum(comb(shards * count, 2) - count * comb(shards, 2) for shards in held.values())
    if binaries > max_binaries:
        raise HopperError(
            f"{count} configurations over {len(holders)} partitions take {binaries} binaries, more than "
            f"max_binaries={max_binaries}; simulate() has no such limit"
        )
    pairs = [
        (first, second)
        for first, second in itertools.combinations(range(len(units)), 2)
        if units[first][0].config == units[second][0].config or units[first][1] == units[second][1]
    ]
    table = workload.table()
    durations = [table[unit.config, worker] for unit, worker in units]
    listed = simulate(workload, POLICIES[0])
    starts, proven = _solve(durations, pairs, listed.makespan, workload.lower_bound, seconds, solver)
    best = listed
    if starts is not None:
        order = sorted(range(len(units)), key=starts.__getitem__)
        solved = in_order(
            ((*units[place], durations[place]) for place in order), workload.lower_bound, f"MILP ({solver})"
        )
        best = min(solved, listed, key=lambda schedule: schedule.makespan)
    return replace(best, optimal=proven or best.makespan <= workload.lower_bound * (1 + _AT_BOUND))


def _solve(
    durations: list[float], pairs: list[tuple[int, int]], most: float, least: float, seconds: float, solver: Solver
) -> tuple[list[float] | None, bool]:
    """Solve for the starts of the shortest schedule; say whether it is proven to be the shortest."""
    import pulp  # type: ignore[import-untyped]  # only a caller of the solver imports it

    problem = pulp.LpProblem("hop", pulp.LpMinimize)
    makespan = problem.add_variable("C", least, most)
    starts = [problem.add_variable(f"X{place}", 0, most - duration) for place, duration in enumerate(durations)]
    problem += makespan
    for start, duration in zip(starts, durations, strict=True):
        problem += makespan >= start + duration
    for first, second in pairs:
        later = problem.add_variable(f"B{first}_{second}", cat="Binary")
        problem += starts[first] >= starts[second] + durations[second] - most * later
        problem += starts[second] >= starts[first] + durations[first] - most * (1 - later)
    engine: Any = pulp.HiGHS
    if solver == "cbc":
        # PuLP 3 ships CBC and warns that PuLP 4 will not; a CBC that is installed comes first.
        engine = pulp.COIN_CMD if pulp.COIN_CMD().available() else pulp.PULP_CBC_CMD
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        problem.solve(engine(msg=False, timeLimit=seconds, threads=1))
    if problem.sol_status not in {pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible}:
        return None, False
    return [float(start.value()) for start in starts], problem.sol_status == pulp.LpSolutionOptimal


def in_order(units: Iterable[tuple[Unit, str, float]], lower_bound: float, method: str) -> Schedule:
    """Start each unit as soon as the units before it have freed its worker and its configuration.

    A solver's starts are exact but for a tolerance, within which units overlap; their order is exact.
    """
    free: dict[tuple[str, str], float] = {}
    placements: list[Placement] = []
    for unit, worker, took in units:
        keys = (("configuration", unit.config), ("worker", worker))
        start = max(free.get(key, 0.0) for key in keys)
        placements.append(Placement(unit, worker, start, start + took))
        free |= dict.fromkeys(keys, start + took)
    return Schedule(tuple(placements), lower_bound, method=method)
