"""Plans of serving: the worked example of the seeds, brute force on small cases, and what any plan must hold."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from served import TABLE_3_2, drawn_sessions, partitions, session_lists, three_partition

from optimizer.errors import InvalidArgumentError
from optimizer.serving import Backend, BatchingProfile, InfeasibleError, Session, lower_bound, plan
from optimizer.serving._duty_cycles import best_cycle

if TYPE_CHECKING:
    from optimizer.serving._planner import Method

METHODS: tuple[Method, ...] = ("search", "exact")


def example() -> list[Session]:
    rates, slos = {"A": 64, "B": 32, "C": 32}, {"A": 200, "B": 250, "C": 250}
    return [Session(name, TABLE_3_2[name], slos[name], rates[name]) for name in "ABC"]


@pytest.mark.parametrize("method", METHODS)
def test_the_worked_example(method: Method) -> None:
    """Section 3.2.1: A in batches of 8 and B of 4 at 125 ms, and C alone."""
    nodes = plan(example(), method=method).nodes
    shared, alone = sorted(nodes, key=lambda node: -len(node.placements))
    assert {one.session: (one.batch, one.worst_ms) for one in shared.placements} == {"A": (8, 200), "B": (4, 175)}
    assert (shared.duty_ms, shared.occupancy) == (125, 1)
    assert [one.session for one in alone.placements] == ["C"]


def test_busy_sessions_fill_backends() -> None:
    """Rates over 160, 128 and 128 requests a second: the first half of section 3.2.1."""
    busy = [session.at_rate(rate) for session, rate in zip(example(), (480, 256, 384), strict=True)]
    found = plan(busy)
    assert [len(routes) for routes in found.routes.values()] == [3, 2, 3]
    assert {node.placements[0].batch for node in found.nodes} == {16}
    assert found.bound == len(found.nodes) == 8


def slowest_grid(sessions: list[Session]) -> float:
    return max(session.slo_ms for session in sessions)


def fits_by_hand(sessions: list[Session], room: float = math.inf) -> bool:
    """Try cycles on a fine grid, and just where a batch grows."""
    edges = [b * 1000 / s.rate for s in sessions for b in range(1, s.profile.max_batch + 1)]
    edges += [s.budget_ms - s.profile.latencies[b] for s in sessions for b in range(1, s.profile.max_batch + 1)]
    for cycle in [*edges, *np.linspace(0.5, slowest_grid(sessions), 60).tolist()]:
        batches = [max(1, math.ceil(s.rate * cycle / 1000 - 1e-7)) for s in sessions]
        if cycle <= 0 or any(b > s.profile.max_batch for b, s in zip(batches, sessions, strict=True)):
            continue
        latencies = [float(s.profile.latencies[b]) for b, s in zip(batches, sessions, strict=True)]
        memory = sum(float(s.profile.memory[b]) for b, s in zip(batches, sessions, strict=True))
        late = any(cycle + ms > s.budget_ms + 1e-6 for ms, s in zip(latencies, sessions, strict=True))
        if not late and sum(latencies) <= cycle + 1e-6 and memory <= room:
            return True
    return False


@given(session_lists(most=3), st.sampled_from([None, 90, 140]))
@settings(max_examples=150, deadline=None)
def test_a_group_fits_where_some_cycle_does(sessions: list[Session], room: int | None) -> None:
    assert (best_cycle(sessions, 1.0, room or math.inf) is not None) == fits_by_hand(sessions, room or math.inf)


@given(session_lists(), st.sampled_from([None, 100, 160]))
@settings(max_examples=80, deadline=None)
def test_every_plan_keeps_its_word(sessions: list[Session], room: int | None) -> None:
    counts = {}
    for method in METHODS:
        found = plan(sessions, memory_bytes=room, method=method)
        assert not found.violations()
        counts[method] = len(found.nodes)
        for session in sessions:
            assert sum(rate for _, rate in found.routes[session.name]) == pytest.approx(session.rate)
    assert found.bound <= counts["exact"] <= counts["search"]


@given(session_lists())
@settings(max_examples=40, deadline=None)
def test_exact_is_the_best_partition(sessions: list[Session]) -> None:
    light = [session.at_rate(min(session.rate, 0.9 * session.peak_rate)) for session in sessions]
    fewest = min(
        len(groups)
        for groups in partitions(range(len(light)))
        if all(best_cycle([light[item] for item in group], 1.0, math.inf) is not None for group in groups)
    )
    assert len(plan(light, method="exact").nodes) == fewest


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("triples", [2, 3, 4])
def test_hard_instances_of_known_optimum(seed: int, triples: int) -> None:
    """Appendix A: triples that fill their backends to the last millisecond."""
    sessions = three_partition(seed, triples)
    assert len(plan(sessions, method="exact").nodes) == triples
    assert not plan(sessions, method="exact").violations()
    assert triples <= len(plan(sessions, method="search").nodes) <= triples + 1


def test_slow_sessions_share_a_backend() -> None:
    """Equation 3.1 as printed has no batch for them: one request a second gathers nothing in 200 ms."""
    slow = [Session(f"s{number}", BatchingProfile({1: 10.0, 8: 40.0}), 200, 1) for number in range(8)]
    for method in METHODS:
        found = plan(slow, method=method)
        assert len(found.nodes) == 1
        assert {one.batch for one in found.nodes[0].placements} == {1}
        assert not found.violations()


def test_memory_separates_models() -> None:
    small = BatchingProfile({1: 5.0, 8: 20.0}, memory_bytes={1: 60, 8: 80})
    sessions = [Session(f"s{number}", small, 400, 1) for number in range(4)]
    for method in METHODS:
        assert len(plan(sessions, method=method).nodes) == 1
        assert len(plan(sessions, memory_bytes=130, method=method).nodes) == 2
        assert len(plan(sessions, memory_bytes=119, method=method).nodes) == 4
    with pytest.raises(InfeasibleError, match=r"'s0' fits on no backend: .* 59 bytes"):
        plan(sessions, memory_bytes=59)


def test_memory_limits_the_batch_of_a_busy_session() -> None:
    profile = BatchingProfile({1: 10.0, 8: 24.0}, memory_bytes={1: 100, 8: 800})
    found = plan([Session("s", profile, 200, 700)], memory_bytes=400)
    assert max(one.batch for node in found.nodes for one in node.placements) == 4
    assert not found.violations()


def test_fast_backends_come_first() -> None:
    sessions = [session.at_rate(100) for session in example()]
    backends = [Backend("slow", 0.5), Backend("fast", 2.0), Backend("usual")]
    found = plan(sessions, backends)
    assert not found.violations()
    assert found.nodes[0].backend.name == "fast"
    assert len(found.nodes) < len(plan(sessions).nodes)


def test_too_few_backends() -> None:
    with pytest.raises(InfeasibleError, match=r"1 backends are too few: '[ABC]' at .*/s"):
        plan(example(), [Backend("only")])
    with pytest.raises(InfeasibleError, match="backends must have at least one"):
        plan(example(), [])
    for method in METHODS:
        assert len(plan(example(), [Backend("a"), Backend("b")], method=method).nodes) == 2


def test_what_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="sessions must have unique names, got 'A'"):
        plan([example()[0], example()[0]])
    with pytest.raises(InvalidArgumentError, match="backends must have unique names, got 'a'"):
        plan(example(), [Backend("a"), Backend("a")])
    with pytest.raises(InvalidArgumentError, match="memory_bytes must be None"):
        plan(example(), [Backend("a")], memory_bytes=5)
    with pytest.raises(InvalidArgumentError, match="more than 12"):
        plan(drawn_sessions(0, 13, 1, 2), method="exact")
    with pytest.raises(InvalidArgumentError, match="must be one of auto, search, exact"):
        plan(example(), method="best")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="did you mean 'backend-0'"):
        plan(example())["backend0"]


def test_nothing_to_serve() -> None:
    assert plan([]).nodes == ()
    assert lower_bound([]) == 0


def test_many_sessions_are_planned() -> None:
    found = plan(drawn_sessions(1, 200, 0.5, 50))
    assert not found.violations()


def test_a_plan_says_what_it_does() -> None:
    found = plan([*example()[:2], Session("M", BatchingProfile({1: 5.0}, memory_bytes={1: 3 << 20}), 90, 1)])
    text = found.explain()
    assert "duty cycle" in text
    assert "3.0 MiB" in text
    assert found["backend-0"].backend.name == "backend-0"
