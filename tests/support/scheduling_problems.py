"""Random instances of approximate model scheduling, and a replay of schedules that shares no code with the product."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from optimizer.approximate import Budget, Problem, Split, Task, Trace, UnservableError, Variant, pareto

if TYPE_CHECKING:
    from collections.abc import Callable

    from optimizer.approximate import Schedule

__all__ = ["best_by_enumeration", "problems", "replayed"]

_whole = st.integers


@st.composite
def variants(draw: Callable[..., Any], name: str) -> Variant:
    """Draw a variant with small whole costs, so that sums are exact."""
    cloud = draw(st.booleans())
    return Variant(
        name,
        draw(_whole(1, 10)) / 16,
        memory_bytes=draw(_whole(1, 6)),
        load_joules=draw(_whole(0, 6)),
        run_joules=draw(_whole(0, 4)),
        load_seconds=draw(_whole(0, 3)),
        run_seconds=draw(_whole(0, 3)),
        cloud_dollars=draw(_whole(0, 2)) if cloud else None,
        cloud_seconds=draw(_whole(0, 3)) if cloud else 0,
        send_joules=draw(_whole(0, 3)) if cloud else 0,
        splits=(Split(0.5, 1),) if cloud and draw(st.booleans()) else (),
    )


@st.composite
def problems(draw: Callable[..., Any], most_requests: int = 5, most_tasks: int = 2) -> Problem:
    """Draw a problem that passes validation."""
    count = draw(_whole(1, most_tasks))
    tasks = tuple(
        Task(f"t{task}", pareto([draw(variants(f"v{place}")) for place in range(draw(_whole(1, 2)))]))
        for task in range(count)
    )
    requests = draw(_whole(1, most_requests))
    gaps = draw(st.lists(_whole(1, 5), min_size=requests, max_size=requests))
    numbers = draw(st.lists(_whole(0, count - 1), min_size=requests, max_size=requests))
    deadlines = draw(st.lists(st.sampled_from([2, 4, np.inf]), min_size=requests, max_size=requests))
    connected = draw(st.lists(st.booleans(), min_size=requests, max_size=requests))
    budget = Budget(draw(_whole(0, 30)), draw(_whole(0, 10)), draw(_whole(0, 4)), seconds=sum(gaps))
    try:
        return Problem(tasks, budget, Trace(np.cumsum(gaps), numbers, deadlines, connected))
    except UnservableError:
        assume(False)
        raise


def replayed(schedule: Schedule) -> tuple[float, float, float]:
    """Replay a schedule step by step; return its accuracy, energy and money, or fail at what it violates."""
    problem, trace = schedule.problem, schedule.problem.trace
    events = defaultdict(list)
    for event in schedule.events:
        events[event.request].append(event)
    memory: dict[int, int] = {}
    accuracy = joules = dollars = 0.0
    # The last load in the background comes after the last request.
    for request, choice in enumerate([*schedule.choices.tolist(), -1]):
        waited = 0.0
        for event in events[request]:
            option = problem.options[event.option]
            if not event.load:
                del memory[event.option]
                continue
            assert event.option not in memory
            memory[event.option] = option.memory_bytes
            joules += option.load_joules
            if event.waited:
                assert event.option == choice
                waited = option.load_seconds
            assert sum(memory.values()) <= problem.budget.memory_bytes
        if choice < 0:
            continue
        option = problem.options[choice]
        assert option.task == problem.tasks[trace.tasks[request]].name
        assert option.place == "cloud" or choice in memory
        assert option.place == "device" or trace.connected[request]
        assert waited + option.seconds <= trace.deadlines[request]
        accuracy, joules, dollars = accuracy + option.accuracy, joules + option.joules, dollars + option.dollars
    assert joules <= problem.budget.joules * (1 + 1e-9)
    assert dollars <= problem.budget.dollars * (1 + 1e-9)
    return accuracy, joules, dollars


def best_by_enumeration(problem: Problem) -> float:
    """Enumerate all residents, choices and costs of a tiny problem with whole costs; return the best accuracy."""
    trace, options, budget = problem.trace, problem.options, problem.budget
    pages = [place for place, option in enumerate(options) if option.memory_bytes]
    fitting = [
        frozenset(group)
        for size in range(len(pages) + 1)
        for group in combinations(pages, size)
        if sum(options[page].memory_bytes for page in group) <= budget.memory_bytes
    ]
    states: dict[tuple[frozenset[int], float, float], float] = {(frozenset(), 0.0, 0.0): 0.0}
    for request in range(len(trace)):
        name, limit = problem.tasks[trace.tasks[request]].name, trace.deadlines[request]
        grown: dict[tuple[frozenset[int], float, float], float] = {}
        for (before, joules, dollars), accuracy in states.items():
            for now in fitting:
                loads = joules + sum(options[page].load_joules for page in now - before)
                reached = [(loads, dollars, accuracy)]
                for place, option in enumerate(options):
                    resident = place in now or option.place == "cloud"
                    seconds = option.seconds + (option.load_seconds if place in now - before else 0)
                    linked = option.place == "device" or trace.connected[request]
                    if option.task == name and resident and linked and seconds <= limit:
                        reached.append((loads + option.joules, dollars + option.dollars, accuracy + option.accuracy))
                for spent, paid, gained in reached:
                    if spent <= budget.joules and paid <= budget.dollars:
                        key = (now, spent, paid)
                        grown[key] = max(grown.get(key, -1.0), gained)
        states = grown
    return max(states.values())
