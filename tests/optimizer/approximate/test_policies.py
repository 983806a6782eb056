"""Online policies: budgets, accuracy near the bound, and the decisions that Algorithm 4.1 misses as printed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from scheduling_problems import problems, replayed

from optimizer.approximate import (
    POLICIES,
    Budget,
    Problem,
    Scheduler,
    Task,
    Trace,
    Variant,
    simulate,
    upper_bound,
)
from optimizer.approximate._fixed import knee
from optimizer.approximate._memory_plan import plan_memory
from optimizer.errors import InvalidArgumentError


def ladder(name: str, *, cloud: bool = False) -> Task:
    """Make a task whose variants halve memory and energy for two points of accuracy."""
    steps = [Variant(f"{name}{k}", 0.9 - 0.02 * k, 320 >> k, 16 / 2**k, 4 / 2**k, 1.0 / 2**k, 0.4) for k in range(5)]
    if cloud:
        steps = [step.in_cloud(dollars=1e-3, seconds=0.2, send_joules=0.5) for step in steps]
    return Task(name, tuple(steps))


def uniform(tasks: int, requests: int, seed: int = 0) -> Trace:
    return Trace(np.arange(requests), np.random.default_rng(seed).integers(0, tasks, requests))


@given(problems(most_requests=15, most_tasks=3))
@settings(max_examples=60)
def test_no_policy_exceeds_a_budget(problem: Problem) -> None:
    for policy in POLICIES:
        schedule = simulate(problem, policy)
        accuracy, joules, dollars = replayed(schedule)
        assert (schedule.total_accuracy, schedule.joules, schedule.dollars) == pytest.approx(
            (accuracy, joules, dollars)
        )
        assert schedule.violations() == []


@pytest.mark.parametrize("joules", [900, 2000, 6000])
@pytest.mark.parametrize("memory", [150, 600])
@pytest.mark.parametrize("dollars", [0.0, 0.5])
def test_stationary_traces_reach_nine_tenths_of_the_bound(joules: float, memory: int, dollars: float) -> None:
    tasks = tuple(ladder(name, cloud=dollars > 0) for name in "abcdef")
    problem = Problem(tasks, Budget(joules, memory, dollars, seconds=3000), uniform(6, 3000))
    assert simulate(problem).total_accuracy >= 0.9 * upper_bound(problem)


def test_more_requests_are_served_than_by_fixed_variants() -> None:
    for count in (2, 5, 10):
        tasks = tuple(ladder(f"t{number}") for number in range(count))
        problem = Problem(tasks, Budget(700, 400, seconds=3000), uniform(count, 3000))
        served = {policy: simulate(problem, policy).served for policy in ("mcdnn", "original", "best")}
        assert served["mcdnn"] > max(served["original"], served["best"])


def test_memory_is_divided_so_that_nothing_is_paged() -> None:
    """In the printed algorithm each task takes the variant that its energy allows, and ten of these do not fit."""
    tasks = tuple(ladder(f"t{number}") for number in range(10))
    schedule = simulate(Problem(tasks, Budget(20_000, 400, seconds=3000), uniform(10, 3000)))
    assert schedule.served == 1
    assert schedule.loads < 100


def test_tasks_without_memory_get_the_energy_for_a_smaller_variant() -> None:
    """Eight of ten tasks fit; equal energy for all would leave the others without any variant."""
    variants = (Variant("large", 0.43, 70, 6, 1.2), Variant("small", 0.42, 10, 5, 2.6))
    tasks = tuple(Task(f"t{number}", variants) for number in range(10))
    schedule = simulate(Problem(tasks, Budget(1.67 * 3000, 600, seconds=3000), uniform(10, 3000)))
    assert schedule.served > 0.98
    assert simulate(schedule.problem, "best").served < 0.9


def test_sending_is_charged() -> None:
    """In the printed algorithm only money limits the cloud, and its requests empty the battery."""
    task = Task(
        "a", (Variant("a", 0.9, 10, 1, 9).in_cloud(dollars=0, seconds=0, send_joules=5), Variant("b", 0.8, 9, 1, 1))
    )
    schedule = simulate(Problem((task,), Budget(1100, 10, 1, seconds=1000), uniform(1, 1000)))
    assert schedule.served > 0.99
    assert simulate(Problem((task,), Budget(1100, 10, 1, seconds=1000), uniform(1, 1000)), "server-first").served < 0.3


def test_energy_for_every_third_request_is_spread_over_the_day() -> None:
    task = Task("a", (Variant("a", 0.9, 10, 1, 3),))
    schedule = simulate(Problem((task,), Budget(1000, 10, seconds=1000), uniform(1, 1000)))
    hours = (schedule.choices >= 0).reshape(10, 100).mean(axis=1)
    assert schedule.served == pytest.approx(1 / 3, abs=0.01)
    assert hours.min() > 0.2


def test_rare_tasks_are_served_too() -> None:
    """The printed formula gives a task with a hundredth of the requests a hundredth of the energy per request."""
    tasks = (ladder("often"), ladder("rare"))
    numbers = (np.arange(4000) % 100 == 99).astype(int)
    schedule = simulate(Problem(tasks, Budget(2000, 600, seconds=4000), Trace(range(4000), numbers)))
    assert np.mean(schedule.choices[numbers == 1] >= 0) > 0.9


def test_without_a_link_the_device_serves() -> None:
    tasks = (ladder("a", cloud=True),)
    connected = np.arange(1000) < 500
    trace = Trace(range(1000), [0] * 1000, connected=connected)
    schedule = simulate(Problem(tasks, Budget(5000, 20, 10, seconds=1000), trace))
    places = np.array([schedule.problem.options[choice].place for choice in schedule.choices])
    assert schedule.served == 1
    assert set(places[500:]) == {"device"}
    assert "cloud" in places[:500]


def test_the_device_serves_when_the_cloud_is_too_slow() -> None:
    slow = Variant("a", 0.9, 100, 1, 2, 0.1, 0.1).in_cloud(dollars=0, seconds=2, send_joules=0.1)
    trace = Trace(range(1000), [0] * 1000, deadlines=np.where(np.arange(1000) % 10, 5.0, 1.0))
    schedule = simulate(Problem((Task("a", (slow,)),), Budget(500, 100, 1, seconds=1000), trace))
    assert schedule.served > 0.99
    empty = Problem((Task("a", (slow,)),), Budget(0.1, 0, 1, seconds=1000), Trace([0, 1], [0, 0]))
    assert simulate(empty).served == 0.5


def test_a_load_that_no_request_can_wait_for_happens_in_the_background() -> None:
    tasks = (ladder("a"),)
    for deadline, first in ((0.47, "a4"), (0.45, None)):
        trace = Trace(range(6), [0] * 6, deadlines=deadline)
        schedule = simulate(Problem(tasks, Budget(1e6, 1000, seconds=10), trace))
        names = [schedule.problem.options[choice].variant if choice >= 0 else None for choice in schedule.choices]
        # The largest variant loads for a second, behind a request that the smallest one serves.
        assert names == [first, "a4", "a4", "a0", "a0", "a0"]


def test_the_name_of_a_policy_is_no_policy() -> None:
    task = Task("scene", (Variant("full", 0.9, 500, 5, 2),))
    policy: Any = "mcdnn"
    with pytest.raises(InvalidArgumentError, match="policy must be an object of Policy, got 'mcdnn'"):
        Scheduler([task], Budget(joules=100, memory_bytes=600), policy)


@given(problems(most_requests=6))
@settings(max_examples=20)
def test_the_scheduler_decides_as_the_simulation_does(problem: Problem) -> None:
    scheduler = Scheduler(problem.tasks, problem.budget, POLICIES["mcdnn"]())
    trace = problem.trace
    names = []
    for row in zip(trace.tasks, trace.arrivals, trace.deadlines, trace.connected, strict=True):
        decision = scheduler.decide(problem.tasks[row[0]].name, now=row[1], deadline=row[2], connected=row[3])
        names.append(str(decision.option))
    simulated = simulate(problem)
    assert names == [str(problem.options[choice]) if choice >= 0 else "None" for choice in simulated.choices]
    assert scheduler.state.joules == pytest.approx(problem.budget.joules - simulated.joules)


def test_arguments() -> None:
    tasks = (ladder("a"),)
    scheduler = Scheduler(tasks, Budget(100, 400), POLICIES["primal-dual"]())
    with pytest.raises(InvalidArgumentError, match="task must be one of a, got 'b'"):
        scheduler.decide("b", now=0)
    scheduler.decide("a", now=3)
    with pytest.raises(InvalidArgumentError, match="now must be at least 3"):
        scheduler.decide("a", now=2)
    with pytest.raises(InvalidArgumentError, match=r"policy must be one of mcdnn.*got 'lru'"):
        simulate(Problem(tasks, Budget(100, 400), uniform(1, 5)), "lru")


def test_the_knee_is_above_the_line_between_the_ends() -> None:
    steps = [(0.5, 10), (0.88, 100), (0.9, 1000)]
    options = [Variant(f"v{m}", a, m, 1, 1).options("t")[0] for a, m in steps]
    assert knee(options).memory_bytes == 100
    assert knee(options[:1]) is options[0]


def test_memory_plan_weighs_accuracy_per_byte_by_frequency() -> None:
    curves = [[Variant(f"v{m}", a, m, 1, 1).options(t)[0] for a, m in ((0.8, 10), (0.9, 60))] for t in "ab"]
    chosen = plan_memory(curves, [1.0, 3.0], 75)
    assert [option.memory_bytes if option else 0 for option in chosen] == [10, 60]
    chosen = plan_memory(curves, [1.0, 3.0], 15)
    assert [option.memory_bytes if option else 0 for option in chosen] == [0, 10]
