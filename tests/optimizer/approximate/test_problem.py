"""Validation of catalogs, budgets and traces, cost cards, and the explanation of schedules."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from optimizer.approximate import (
    Budget,
    CostCard,
    MemoryEvent,
    Problem,
    Schedule,
    Split,
    Task,
    Trace,
    UnservableError,
    Variant,
    pareto,
    simulate,
)
from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

FULL = Variant("full", 0.9, 500, load_joules=5, run_joules=2, load_seconds=1, run_seconds=0.5)
SMALL = Variant("small", 0.8, 100, load_joules=1, run_joules=0.5, load_seconds=0.2, run_seconds=0.1)
SCENE = Task("scene", (FULL, SMALL))
BUDGET = Budget(joules=50, memory_bytes=600, seconds=100)
TRACE = Trace([1, 2, 3], [0, 0, 0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: replace(FULL, accuracy=0), "accuracy must be a number above 0 and at most 1, got 0"),
        (lambda: replace(FULL, memory_bytes=0), "memory_bytes must be a whole number of at least 1, got 0"),
        (lambda: replace(FULL, run_joules=-1), "run_joules must be a number of at least 0, got -1"),
        (lambda: replace(FULL, name=""), "name must be a non-empty str, got ''"),
        (lambda: replace(FULL, on_device=False), "cloud_dollars of 'full' must be a price, got None"),
        (lambda: Split(1, 0), "prefix must be above 0 and below 1, got 1"),
        (lambda: Task("scene", ()), "variants of 'scene' must be at least one Variant"),
        (lambda: Task("scene", (FULL, FULL)), "names of the variants of 'scene' must be unique, got 'full'"),
        (lambda: Problem((), BUDGET, TRACE), "tasks must be at least one Task, got none"),
        (lambda: Problem((SCENE, SCENE), BUDGET, TRACE), "names of tasks must be unique, got 'scene'"),
        (lambda: Problem((SCENE,), BUDGET, Trace([1], [1])), "tasks of the trace must be below 1, got 1"),
        (lambda: Problem((SCENE,), BUDGET, Trace([101], [0])), "arrivals must be within the 100 s"),
        (lambda: Budget(-1, 1), "joules must be a number of at least 0, got -1"),
        (lambda: Budget(1, 1, seconds=0), "seconds must be a number above 0, got 0"),
        (lambda: Trace([], []), "arrivals must be a sequence of at least one"),
        (
            lambda: Trace([1, 3, 2], [0, 0, 0]),
            "arrivals must be strictly increasing seconds, got 2 after 3 at request 2",
        ),
        (lambda: Trace([1, 1], [0, 0]), "arrivals must be strictly increasing seconds, got 1 after 1 at request 1"),
        (lambda: Trace([1, 2], [0]), "tasks must be 2 whole numbers"),
        (lambda: Trace([1, 2], [0, 0.5]), "tasks must be 2 whole numbers"),
        (lambda: Trace([1, 2], [0, 0], deadlines=[1, 2, 3]), "deadlines and connected must be one value or 2"),
        (lambda: Trace([1, 2], [0, 0], deadlines=[1, 0]), "deadlines must be seconds above 0, got 0"),
        (lambda: CostCard(watts=0), "watts must be a number above 0, got 0"),
    ],
)
def test_values_are_checked(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make()


def test_a_variant_that_is_worse_and_larger_is_refused() -> None:
    worse = Variant("worse", 0.7, 120, load_joules=1, run_joules=0.5, load_seconds=0.2, run_seconds=0.1)
    with pytest.raises(InvalidArgumentError, match=r"got 'worse': 'small' is as accurate.*Pass pareto"):
        Task("scene", (worse, FULL, SMALL))
    assert pareto([worse, FULL, SMALL]) == (FULL, SMALL)
    # Worse and larger, but cheaper to run: O1 and GoogLeNet of Table 5.1 are such a pair.
    lean = replace(worse, run_joules=0.4)
    assert Task("scene", (lean, FULL, SMALL)).variants[0] is lean
    # Only this one runs in the cloud.
    remote = worse.in_cloud(dollars=1, seconds=1, send_joules=1)
    assert pareto([remote, SMALL]) == (remote, SMALL)
    twin = replace(SMALL, name="twin")
    with pytest.raises(InvalidArgumentError, match="got 'twin': 'small'"):
        Task("scene", (SMALL, twin))


@pytest.mark.parametrize(
    "budget", [Budget(0, 600), Budget(1.4, 600), Budget(50, 99), Budget(0, 0, 0), Budget(0, 600, 5)]
)
def test_budgets_that_pay_for_no_request_are_refused(budget: Budget) -> None:
    with pytest.raises(
        UnservableError, match=r"budget must pay for a request of 'scene', got .*small \(device\) takes 1.5 J"
    ):
        Problem((SCENE,), replace(budget, seconds=100), TRACE)


def test_money_alone_pays_for_the_cloud() -> None:
    remote = FULL.in_cloud(dollars=1, seconds=1, send_joules=0)
    schedule = simulate(Problem((Task("scene", (remote,)),), Budget(0, 0, 2, seconds=100), TRACE), "primal-dual")
    assert schedule.served == pytest.approx(2 / 3)


def test_a_deadline_that_no_variant_can_meet_is_refused() -> None:
    with pytest.raises(
        UnservableError, match=r"deadlines of 'scene' must be at least 0.1 .* got 0.05 at request 1 and 1"
    ):
        Problem((SCENE,), BUDGET, Trace([1, 2, 3], [0, 0, 0], deadlines=[0.1, 0.05, 0.05]))
    remote = replace(FULL, run_seconds=9).in_cloud(dollars=0, seconds=0.05, send_joules=0)
    trace = Trace([1, 2], [0, 0], deadlines=1, connected=[True, False])
    with pytest.raises(UnservableError, match=r"at least 9 seconds.*got 1 at request 1"):
        Problem((Task("scene", (remote,)),), BUDGET, trace)


def test_values_are_frozen() -> None:
    problem = Problem((SCENE,), BUDGET, TRACE)
    with pytest.raises(FrozenInstanceError):
        problem.budget = BUDGET  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        problem.trace.arrivals[0] = 5


def test_a_split_divides_the_costs() -> None:
    option = FULL.in_cloud(dollars=4, seconds=2, send_joules=1, splits=[Split(0.25, 0.3)]).options("scene")[2]
    assert (option.place, option.memory_bytes, option.load_joules) == ("split 0.25", 125, 1.25)
    assert (option.joules, option.dollars, option.seconds) == pytest.approx((0.8, 3, 2.125))


def test_cost_card_of_the_thesis() -> None:
    """Section 4.1: 100 ms and 900 ms on the device; 4.3.1: 0.5 and 0.9 J to send, $10 a year; 4.4.3: 364 ms."""
    card = CostCard()
    alexnet = card.variant("alexnet", accuracy=0.57, gflop=1.4, memory_bytes=244_000_000, sent_bytes=10_000)
    vgg16 = card.variant("vgg16", accuracy=0.69, gflop=31, memory_bytes=553_000_000, sent_bytes=10_000)
    assert 0.05 < alexnet.run_seconds < 0.1 and 0.9 < vgg16.run_seconds < 1.6
    assert vgg16.send_joules == pytest.approx(0.5)
    assert vgg16.cloud_seconds - card.link_seconds == pytest.approx(0.364, rel=0.01)
    # 9.7 ms for each of 36,000 requests of 365 days.
    seconds = 0.0097 * 36_000 * 365
    assert seconds / 3600 * card.dollars_per_hour == pytest.approx(10, rel=0.02)
    assert card.variant("device", accuracy=0.5, gflop=1, memory_bytes=1).cloud_dollars is None


def test_a_schedule_lists_what_it_violates() -> None:
    trace = Trace([1, 2, 3], [0, 0, 0], deadlines=0.6, connected=[True, True, False])
    tasks = (Task("scene", (FULL, SMALL.in_cloud(dollars=1, seconds=0.2, send_joules=0))), Task("face", (FULL,)))
    problem = Problem(tasks, Budget(9, 600, 1, seconds=100), trace)
    places = {f"{option.task} {option}": place for place, option in enumerate(problem.options)}
    full, cloud = places["scene full (device)"], places["scene small (cloud)"]

    def violations(choices: list[int], *events: MemoryEvent) -> str:
        return "; ".join(Schedule(problem, np.array(choices), events, "test").violations())

    load = MemoryEvent(0, full, load=True)
    assert violations([full, full, -1], load) == ""
    assert "not in memory" in violations([full, -1, -1])
    assert "1.5 of 0.6 seconds" in violations([full, -1, -1], replace(load, waited=True))
    assert "without a link" in violations([-1, -1, cloud])
    assert "2 of 1 dollars" in violations([cloud, cloud, -1])
    assert "11 of 9 J" in violations([full] * 3, load)
    assert "is not for scene" in violations([places["face full (device)"], -1, -1])
    both = MemoryEvent(0, places["face full (device)"], load=True)
    assert "1000 B of 600 B" in violations([-1] * 3, load, both)
    assert "twice" in violations([-1] * 3, load, load)
    evicted = MemoryEvent(1, full, load=False)
    assert "not in memory" in violations([-1, full, -1], load, evicted)


def test_explain_names_budgets_and_variants() -> None:
    text = simulate(Problem((SCENE,), replace(BUDGET, joules=500), TRACE)).explain()
    assert "100.0% of 3 requests served, mean accuracy 0." in text
    assert "method: mcdnn" in text
    assert "of 500 J" in text
    assert "scene: 3 requests; small (device)" in text
    assert "violated" not in text
