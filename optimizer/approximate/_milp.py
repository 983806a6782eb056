"""Offline optimum of approximate model scheduling by a mixed-integer linear program."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.approximate._schedule import MemoryEvent, Schedule
from optimizer.approximate._simulation import simulate
from optimizer.arguments import real
from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from optimizer.approximate._problem import Problem

__all__ = ["best_schedule", "solve"]

# Binary variables above which the solver needs longer than a heuristic is worth.
_MOST_BINARIES = 20_000
_HALF = 0.5


def best_schedule(problem: Problem, *, seconds: float = 60.0) -> Schedule:
    """Compute the offline optimum of a short trace, which no online policy exceeds.

    Variables say which option serves each request, which options are resident during it, and which are loaded before
    it: time-indexed, with the corrections that :class:`Problem` lists. Background loads between any two requests are
    allowed, so that the optimum bounds all policies.

    Parameters
    ----------
    problem : Problem
        Problem of at most some hundred requests.
    seconds : float
        Time limit of the solver. Default 60.

    Returns
    -------
    Schedule
        ``optimal`` is true if the solver proves it within its time; without any solution it is that of the better
        online policy.

    Raises
    ------
    InvalidArgumentError
        The trace is too long: :func:`upper_bound` bounds it.

    Examples
    --------
    >>> from optimizer.approximate import Budget, Problem, Task, Trace, Variant
    >>> scene = Task("scene", (Variant("full", 0.9, 500, 5, 2), Variant("small", 0.8, 100, 1, 0.5)))
    >>> best = best_schedule(Problem((scene,), Budget(9, 600, seconds=10), Trace([1, 2, 3], [0, 0, 0])))
    >>> f"{best.total_accuracy:.1f}", best.loads, best.optimal
    ('2.5', 2, True)
    """
    real("seconds", seconds, 0, above=True)
    trace, options, budget = problem.trace, problem.options, problem.budget
    pages = [place for place, option in enumerate(options) if option.memory_bytes]
    if (binaries := len(trace) * len(options)) > _MOST_BINARIES:
        raise InvalidArgumentError(
            f"problem must have at most {_MOST_BINARIES:,} pairs of a request and an option, got {binaries:,}. "
            f"upper_bound bounds longer traces."
        )
    import pulp  # type: ignore[import-untyped]

    program = pulp.LpProblem("schedule", pulp.LpMaximize)
    serve: list[dict[int, Any]] = []
    joules, dollars, gains = [], [], []
    before = dict.fromkeys(pages, 0)  # type: dict[int, Any]
    resident: list[dict[int, Any]] = []
    for request in range(len(trace)):
        now = {page: program.add_variable(f"R{request}_{page}", cat="Binary") for page in pages}
        program += (
            pulp.lpSum(options[page].memory_bytes / max(1, budget.memory_bytes) * r for page, r in now.items()) <= 1
        )
        for page, r in now.items():
            load = program.add_variable(f"Z{request}_{page}", 0, 1)
            program += load >= r - before[page]
            joules.append(options[page].load_joules * load)
        chosen: dict[int, Any] = {}
        for place in problem.options_for(int(trace.tasks[request])):
            option = options[place]
            late = option.seconds > trace.deadlines[request]
            if late or (option.needs_link and not trace.connected[request]):
                continue
            chosen[place] = x = program.add_variable(f"X{request}_{place}", cat="Binary")
            if place in now:
                waits = option.seconds + option.load_seconds > trace.deadlines[request]
                program += x <= now[place]
                if waits:
                    program += x <= before[place]
            joules.append(option.joules * x)
            dollars.append(option.dollars * x)
            gains.append(option.accuracy * x)
        program += pulp.lpSum(chosen.values()) <= 1
        serve.append(chosen)
        resident.append(now)
        before = now
    # Solvers need numbers near 1.
    program += pulp.lpSum(joules) / max(budget.joules, 1e-300) <= 1 if budget.joules else pulp.lpSum(joules) <= 0
    program += pulp.lpSum(dollars) / max(budget.dollars, 1e-300) <= 1 if budget.dollars else pulp.lpSum(dollars) <= 0
    program += pulp.lpSum(gains)
    optimal = solve(program, seconds)
    if optimal is None:
        return max(simulate(problem), simulate(problem, "primal-dual"), key=lambda plan: plan.total_accuracy)
    choices = np.array([next((place for place, x in row.items() if _is_set(x)), -1) for row in serve])
    return Schedule(problem, choices, _events(resident, choices), "MILP", optimal)


def _events(resident: list[dict[int, Any]], choices: Any) -> tuple[MemoryEvent, ...]:
    """Read loads and evictions from the solution; a request waits only for the load of its option."""
    events: list[MemoryEvent] = []
    before: set[int] = set()
    for request, row in enumerate(resident):
        now = {page for page, r in row.items() if _is_set(r)}
        events += [MemoryEvent(request, page, load=False) for page in sorted(before - now)]
        events += [
            MemoryEvent(request, page, load=True, waited=page == choices[request]) for page in sorted(now - before)
        ]
        before = now
    return tuple(events)


def _is_set(variable: Any) -> bool:
    return bool((variable.value() or 0.0) > _HALF)


def solve(program: Any, seconds: float) -> bool | None:
    """Run the solver, and return whether the solution is proven, or None without a solution in time."""
    import pulp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        program.solve(pulp.HiGHS(msg=False, timeLimit=seconds, threads=1, gapRel=1e-9))
    if program.sol_status not in {pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible}:
        return None
    return bool(program.sol_status == pulp.LpSolutionOptimal)
