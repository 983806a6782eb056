"""Offline optimum and bound, against an enumeration of all schedules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from scheduling_problems import best_by_enumeration, problems, replayed

from optimizer.approximate import POLICIES, Budget, Problem, Task, Trace, Variant, best_schedule, simulate, upper_bound
from optimizer.errors import InvalidArgumentError


@given(problems())
@settings(max_examples=30)
def test_the_optimum_is_that_of_an_enumeration(problem: Problem) -> None:
    schedule = best_schedule(problem)
    accuracy, joules, dollars = replayed(schedule)
    assert schedule.optimal
    assert accuracy == pytest.approx(best_by_enumeration(problem), abs=1e-6)
    assert (schedule.total_accuracy, schedule.joules, schedule.dollars) == pytest.approx((accuracy, joules, dollars))
    assert schedule.violations() == []


@given(problems(most_requests=12, most_tasks=3))
@settings(max_examples=25)
def test_bound_optimum_and_policies_are_in_this_order(problem: Problem) -> None:
    best = best_schedule(problem).total_accuracy
    assert upper_bound(problem) >= best - 1e-6
    for policy in POLICIES:
        assert simulate(problem, policy).total_accuracy <= best + 1e-6


def test_the_bound_knows_that_alternating_tasks_page() -> None:
    """Without its cuts the bound loads each option once, and the memory is shared in time for nothing."""
    tasks = tuple(Task(name, (Variant(name, 1.0, 10, load_joules=2, run_joules=0),)) for name in "ab")
    trace = Trace(range(20), np.arange(20) % 2)
    problem = Problem(tasks, Budget(joules=8, memory_bytes=10, seconds=20), trace)
    # One option stays for its ten requests; three loads serve one request of the other.
    assert upper_bound(problem) < 15
    assert best_schedule(problem).total_accuracy >= 11


def test_the_bound_is_attained_when_nothing_is_scarce() -> None:
    tasks = (Task("a", (Variant("a", 0.75, 10, load_joules=2, run_joules=1),)),)
    problem = Problem(tasks, Budget(joules=100, memory_bytes=10, seconds=60), Trace(range(50), [0] * 50))
    assert upper_bound(problem) == pytest.approx(0.75 * 50)


def test_a_long_trace_is_refused() -> None:
    tasks = (Task("a", (Variant("a", 0.75, 10, load_joules=2, run_joules=1),)),)
    problem = Problem(tasks, Budget(joules=100, memory_bytes=10), Trace(range(20_001), [0] * 20_001))
    with pytest.raises(InvalidArgumentError, match=r"at most 20,000 pairs.*upper_bound"):
        best_schedule(problem)
