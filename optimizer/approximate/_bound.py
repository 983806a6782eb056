"""Upper bound of all schedules by a linear program whose size does not depend on the length of the trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.approximate._milp import solve
from optimizer.errors import CerebroError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from optimizer.approximate._problem import Problem

__all__ = ["upper_bound"]

# Slopes of the cuts, relative to the task's share of all requests.
_SLOPES = (0.0, 1.0, 1.05, 1.2, 1.5, 2.0, 4.0)
_SECONDS = 600.0


def upper_bound(problem: Problem) -> float:
    """Bound the sum of accuracies of all schedules, online and offline, of a trace of any length.

    The variables are numbers of requests for each option, loads, and shares of the trace in which an option is
    resident. Energy and money are those of equations 4.2 and 4.3; the memory of (4.4) holds in the mean over the trace.
    Requests, loads and residence are linked by cuts: while an option stays loaded for ``L`` requests of all tasks, at
    most ``c + rho L`` of them are of its task, with ``c`` computed from the trace for some slopes ``rho``. So ``z``
    loads and a share ``r`` of ``n`` requests serve at most ``c z + rho r n``.

    Parameters
    ----------
    problem : Problem
        Problem to bound.

    Returns
    -------
    float
        Upper bound of ``Schedule.total_accuracy``.

    Examples
    --------
    >>> from optimizer.approximate import Budget, Problem, Task, Trace, Variant
    >>> scene = Task("scene", (Variant("full", 0.9, 500, 5, 2), Variant("small", 0.8, 100, 1, 0.5)))
    >>> problem = Problem((scene,), Budget(9, 600, seconds=10), Trace([1, 2, 3], [0, 0, 0]))
    >>> round(upper_bound(problem), 2)
    2.63
    """
    import pulp  # type: ignore[import-untyped]

    trace, options, budget = problem.trace, problem.options, problem.budget
    program = pulp.LpProblem("bound", pulp.LpMaximize)
    served: list[list[Any]] = [[] for _ in options]
    cuts: dict[str, list[tuple[float, float]]] = {}
    for number, task in enumerate(problem.tasks):
        cuts[task.name] = list(_cuts(np.flatnonzero(trace.tasks == number), len(trace)))
        for usable, count in _groups(problem, number):
            row = {place: program.add_variable(f"X{place}_{len(served[place])}", 0) for place in usable}
            for place, requests in row.items():
                served[place].append(requests)
            program += pulp.lpSum(row.values()) <= count
    joules, room = [], []
    for place, option in enumerate(options):
        requests = pulp.lpSum(served[place])
        joules.append(option.joules * requests)
        if option.memory_bytes:
            loads = program.add_variable(f"Z{place}", 0)
            share = program.add_variable(f"R{place}", 0, 1)
            program += share <= loads
            for base, slope in cuts[option.task]:
                program += requests <= base * loads + slope * len(trace) * share
            joules.append(option.load_joules * loads)
            room.append(option.memory_bytes / budget.memory_bytes * share)
    dollars = [option.dollars * pulp.lpSum(row) for option, row in zip(options, served, strict=True)]
    program += pulp.lpSum(room) <= 1
    for costs, limit in ((joules, budget.joules), (dollars, budget.dollars)):
        # Solvers need numbers near 1.
        program += pulp.lpSum(costs) / (limit or 1.0) <= (1 if limit else 0)
    program += pulp.lpSum(option.accuracy * pulp.lpSum(row) for option, row in zip(options, served, strict=True))
    if not solve(program, _SECONDS):
        raise CerebroError(f"problem must have a linear program that is solved in {_SECONDS:g} seconds, got none.")
    return float(pulp.value(program.objective)) * (1 + 1e-9)


def _groups(problem: Problem, task: int) -> Iterator[tuple[list[int], int]]:
    """Yield the options that a deadline and a link allow, and the number of requests with these."""
    trace, places = problem.trace, problem.options_for(task)
    rows = trace.tasks == task
    if not rows.any():
        return
    seconds = np.array([problem.options[place].seconds for place in places])
    needs_link = np.array([problem.options[place].needs_link for place in places])
    usable = (seconds <= trace.deadlines[rows, None]) & (trace.connected[rows, None] | ~needs_link)
    if (usable == usable[0]).all():
        # The usual case; sorting the rows takes longer than the linear program.
        usable, counts = usable[:1], np.array([len(usable)])
    else:
        usable, counts = np.unique(usable, axis=0, return_counts=True)
    for allowed, count in zip(usable, counts, strict=True):
        yield [places[at] for at in np.flatnonzero(allowed)], int(count)


def _cuts(requests: NDArray[np.int64], total: int) -> Iterator[tuple[float, float]]:
    """Yield pairs (c, rho): among any L successive requests at most c + rho L are of the task."""
    if not len(requests):
        return
    for relative in _SLOPES:
        slope = relative * len(requests) / total
        # From the a-th to the b-th request of the task there are b - a + 1 of it among p_b - p_a + 1.
        excess = np.arange(len(requests)) - slope * requests
        base = float((excess - np.minimum.accumulate(excess)).max()) + 1 - slope
        yield max(base, 0.0), slope
    yield 0.0, 1.0
