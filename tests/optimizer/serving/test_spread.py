"""Plans spread over idle backends, with batches as large as deadlines allow."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from optimizer.serving import Backend, BatchingProfile, InfeasibleError, ServingPlan, Session, plan, spread

BACKENDS = [Backend(name) for name in ("a", "b", "c", "d")]


def rates(plan: ServingPlan) -> dict[str, float]:
    return {name: sum(rate for _, rate in routes) for name, routes in plan.routes.items()}


@given(
    st.lists(
        st.tuples(st.floats(1, 20), st.floats(0.5, 10), st.floats(100, 800), st.floats(0.1, 60)),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=40)
def test_every_backend_works_and_the_plan_stays_in_time(drawn: list[tuple[float, float, float, float]]) -> None:
    sessions = [
        Session(f"s{place}", BatchingProfile.from_line(per_item, fixed, 32), slo, rate)
        for place, (fixed, per_item, slo, rate) in enumerate(drawn)
    ]
    try:
        made = plan(sessions, BACKENDS)
    except InfeasibleError:
        return
    live = spread(made, BACKENDS)
    assert {node.backend.name for node in live.nodes} == {"a", "b", "c", "d"}
    assert live.violations() == []
    before, after = (
        {name: sum(rate for _, rate in routes) for name, routes in one.routes.items()} for one in (made, live)
    )
    assert before.keys() == after.keys()
    assert all(abs(before[name] - after[name]) < 1e-9 * before[name] for name in before)


def test_batches_grow_as_far_as_the_deadline_allows() -> None:
    session = Session("s", BatchingProfile({1: 10.0, 8: 40.0, 16: 70.0}), 100.0, 1.0)
    made = plan([session], BACKENDS[:1])
    assert made.nodes[0].placements[0].batch == 1
    (node,) = spread(made, BACKENDS[:1]).nodes
    assert node.placements[0].batch == session.profile.best_batch(50.0)
    assert node.placements[0].rate == 1.0


def test_backends_with_the_same_models_take_equal_parts() -> None:
    """With halves, two of four were as full as before, and their requests were late in any burst."""
    session = Session("s", BatchingProfile.from_line(0.69, 5.0, 64), 100.0, 1.0)
    for load in (0.9, 1.1, 1.6, 2.5, 3.9):
        made = plan([session.at_rate(load * session.peak_rate)], BACKENDS)
        found = [placement.rate for node in spread(made, BACKENDS).nodes for placement in node.placements]
        assert found == pytest.approx([load * session.peak_rate / 4] * 4)


def test_an_idle_backend_takes_from_the_busiest() -> None:
    profile = BatchingProfile({1: 10.0})
    sessions = [Session("busy", profile, 20.0, 48.0), Session("calm", profile, 20.0, 47.0)]
    made = plan(sessions, BACKENDS[:3])
    assert len(made.nodes) == 2
    found = [(node.placements[0].session, node.placements[0].rate) for node in spread(made, BACKENDS[:3]).nodes]
    assert sorted(found) == [("busy", 24.0), ("busy", 24.0), ("calm", 47.0)]


def test_a_slower_backend_does_not_take_half() -> None:
    session = Session("s", BatchingProfile({1: 10.0}), 100.0, 1.0)
    backends = [Backend("fast", speed=2.0), Backend("slow")]
    assert [node.backend.name for node in spread(plan([session], backends), backends).nodes] == ["fast"]


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("speed", [1.0, 2.0])
def test_occupancy_is_the_busy_share_at_the_planned_rates(count: int, speed: float) -> None:
    profile = BatchingProfile({1: 10.0, 8: 40.0, 16: 70.0})
    backends = [Backend(name, speed=speed) for name in ("a", "b", "c", "d")[:count]]
    shares = []
    for load in (0.001, 0.01, 0.1, 0.4, 0.7, 0.999):
        session = Session("s", profile, 300.0, load * count * speed * 1000 * 16 / 70.0)
        live = spread(plan([session], backends), backends)
        assert len({round(node.occupancy, 6) for node in live.nodes}) == 1
        shares.append(live.nodes[0].occupancy)
    assert shares == sorted(shares)
    assert shares[0] == pytest.approx(0.01 * 16 / 70.0, rel=0.5), "rare requests are batches of one"
    assert shares[-1] == pytest.approx(1.0, abs=0.01)
