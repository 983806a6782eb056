"""Baselines of the thesis: batch-oblivious plans, Algorithm 3.1, and even splits of a deadline."""

from __future__ import annotations

from hypothesis import given, settings
from served import TABLE_3_2, drawn_sessions, session_lists

from benchmarks.serving.simulation import (
    arrival_times,
    plan_batch_oblivious,
    plan_by_algorithm_3_1,
    simulate,
    split_evenly,
)
from optimizer.serving import BatchingProfile, Query, Session, plan, split


def test_the_baseline_overloads_its_backends() -> None:
    sessions = drawn_sessions(5, 16, 10, 80)
    ours, theirs = plan(sessions), plan_batch_oblivious(sessions)
    assert len(theirs.nodes) < len(ours.nodes)
    assert theirs.violations()
    assert not ours.violations()
    traffic = {one.name: arrival_times(0.8 * one.rate, 20, seed=place) for place, one in enumerate(sessions)}
    good = [simulate(found, traffic=traffic).good_rate for found in (ours, theirs)]
    assert good[0] > 0.97 > good[1]


def test_the_baseline_is_right_where_nothing_is_shared() -> None:
    busy = Session("A", BatchingProfile({1: 31, 16: 100}), 200, 320)
    assert plan_batch_oblivious([busy]).nodes == plan([busy]).nodes


def test_algorithm_3_1_finds_the_worked_example() -> None:
    """Section 3.2.1: A in batches of 8 and B of 4 at 125 ms, and C alone."""
    rates, slos = {"A": 64, "B": 32, "C": 32}, {"A": 200, "B": 250, "C": 250}
    found = plan_by_algorithm_3_1([Session(name, TABLE_3_2[name], slos[name], rates[name]) for name in "ABC"])
    shared, alone = sorted(found.nodes, key=lambda node: -len(node.placements))
    assert {one.session: (one.batch, one.worst_ms) for one in shared.placements} == {"A": (8, 200), "B": (4, 175)}
    assert [one.session for one in alone.placements] == ["C"]


@given(session_lists())
@settings(max_examples=40, deadline=None)
def test_algorithm_3_1_keeps_deadlines_and_is_no_better_than_exact(sessions: list[Session]) -> None:
    found = plan_by_algorithm_3_1(sessions)
    assert not found.violations()
    assert len(plan(sessions, method="exact").nodes) <= len(found.nodes)


def test_search_is_better_than_algorithm_3_1() -> None:
    counts = dict.fromkeys(("search", "exact", "algorithm"), 0)
    for seed in range(10, 22):
        sessions = drawn_sessions(seed, 12, 0.5, 20)
        counts["search"] += len(plan(sessions, method="search").nodes)
        counts["exact"] += len(plan(sessions, method="exact").nodes)
        counts["algorithm"] += len(plan_by_algorithm_3_1(sessions).nodes)
    assert counts["search"] <= 1.01 * counts["exact"] < counts["algorithm"]
    many = drawn_sessions(1, 200, 0.5, 50)
    assert len(plan(many).nodes) <= len(plan_by_algorithm_3_1(many).nodes)


def test_an_even_split_is_no_better() -> None:
    ssd, car = BatchingProfile.from_line(20, 30, 16), BatchingProfile.from_line(2, 8, 32)
    query = Query("traffic", {"ssd": ssd, "car": car}, {("ssd", "car"): 2.5}, slo_ms=400, rate=20)
    even = split_evenly(query)
    assert dict(even.budgets) == {"ssd": 200, "car": 200}
    assert split(query).backends <= even.backends
