"""Plans carried over epochs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from served import TABLE_3_2, drawn_sessions, session_lists

from optimizer.errors import InvalidArgumentError
from optimizer.serving import Backend, InfeasibleError, Session, plan, replan


def at(sessions: list[Session], factor: float) -> list[Session]:
    return [session.at_rate(session.rate * factor) for session in sessions]


@given(session_lists(), st.lists(st.sampled_from([0.05, 0.5, 0.9, 1.0, 1.5, 4.0]), min_size=5, max_size=5))
@settings(max_examples=60, deadline=None)
def test_every_next_plan_keeps_its_word(sessions: list[Session], factors: list[float]) -> None:
    old = plan(sessions)
    changed = [session.at_rate(session.rate * factor) for session, factor in zip(sessions, factors, strict=False)]
    new = replan(old, changed)
    if new.plan is not old:
        assert not new.plan.violations()
        assert len(new.plan.nodes) <= 1.1 * len(plan(changed).nodes)
    placed = {(one.session, node.backend.name) for node in new.plan.nodes for one in node.placements}
    before = {(one.session, node.backend.name) for node in old.nodes for one in node.placements}
    assert (before - set(new.unloaded)) | set(new.loaded) == placed
    assert len({node.backend.name for node in new.plan.nodes}) == len(new.plan.nodes)


def test_small_changes_change_nothing() -> None:
    sessions = drawn_sessions(1, 20, 5, 60)
    old = plan(sessions)
    for factor in (0.8, 0.95, 1.0, 1.1):
        quiet = replan(old, at(sessions, factor))
        assert quiet.plan is old
        assert quiet.explain().startswith("changes: none")
    assert replan(old, at(sessions, 1.11)).plan is not old
    assert replan(old, at(sessions, 0.79)).plan is not old


def test_little_moves() -> None:
    """One session of twenty doubles: of the others next to none changes its place."""
    sessions = drawn_sessions(2, 20, 5, 60)
    old = plan(sessions)
    changed = [sessions[0].at_rate(2 * sessions[0].rate), *sessions[1:]]
    new = replan(old, changed, excess=1.0)
    assert len({session for session, _ in new.loaded}) <= 3
    assert not new.plan.violations()


def test_less_load_gives_backends_back() -> None:
    sessions = drawn_sessions(3, 20, 20, 120)
    old = plan(sessions)
    new = replan(old, at(sessions, 0.3))
    assert new.released
    assert not new.taken
    assert {node.backend.name for node in new.plan.nodes} < {node.backend.name for node in old.nodes}


def test_more_load_takes_backends_and_keeps_the_old() -> None:
    sessions = drawn_sessions(3, 20, 20, 120)
    old = plan(sessions)
    new = replan(old, at(sessions, 1.6), excess=1.0)
    assert new.taken
    assert not new.released
    assert len(new.unloaded) <= len(sessions) // 2


def test_the_cheapest_is_evicted() -> None:
    small = Session("B", TABLE_3_2["B"], 250, 4)
    large = Session("A", TABLE_3_2["A"], 200, 60)
    old = plan([large, small])
    assert len(old.nodes) == 1
    new = replan(old, [large.at_rate(150), small])
    assert new.loaded == (("B", "backend-1"),)
    assert new.unloaded == (("B", "backend-0"),)


def test_sessions_that_come_and_go() -> None:
    first, second = Session("A", TABLE_3_2["A"], 400, 10), Session("B", TABLE_3_2["B"], 400, 10)
    old = plan([first])
    both = replan(old, [first, second])
    assert both.loaded == (("B", "backend-0"),)
    assert not both.taken
    alone = replan(both.plan, [second])
    assert alone.unloaded == (("A", "backend-0"),)
    empty = replan(alone.plan, [])
    assert empty.released == ("backend-0",)
    assert empty.plan.nodes == ()


def test_a_lost_backend_is_replaced() -> None:
    sessions = drawn_sessions(4, 10, 20, 80)
    backends = [Backend(f"b{number}") for number in range(12)]
    old = plan(sessions, backends)
    gone = old.nodes[0].backend
    rest = [backend for backend in backends if backend != gone]
    new = replan(old, sessions, rest)
    assert gone.name not in {node.backend.name for node in new.plan.nodes}
    assert not new.plan.violations()
    moved = {one.session for one in old.nodes[0].placements}
    assert {session for session, _ in new.loaded} == moved


def test_too_few_backends_for_the_next_epoch() -> None:
    session = Session("A", TABLE_3_2["A"], 200, 100)
    backends = [Backend("a"), Backend("b")]
    old = plan([session], backends)
    with pytest.raises(InfeasibleError, match="2 backends are too few"):
        replan(old, [session.at_rate(500)], backends)
    with pytest.raises(InvalidArgumentError, match="quiet"):
        replan(old, [session], quiet=(1.2, 1.5))
