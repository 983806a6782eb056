"""A plan spread over backends that are there anyway, with batches as large as deadlines allow."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from optimizer.serving._demand import best_cycle
from optimizer.serving._plan import NodePlan, ServingPlan, node_plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optimizer.serving._session import Backend, Session

__all__ = ["spread"]

# Doublings of a node's rates that are tried, and halvings of the last step.
_DOUBLINGS, _HALVINGS = 24, 12


def spread(plan: ServingPlan, backends: Sequence[Backend]) -> ServingPlan:
    """Share the work of a plan with backends that it leaves idle, and let every batch grow as far as deadlines allow.

    A plan takes as few backends as possible, and fills one after the other. Where others are held anyway, each of them
    takes the models of the busiest one, and backends of one kind that have the same models take equal parts of their
    requests: one that is lost is then replaced without loading anything. A batch of the plan is as large as the planned
    rate fills; with the batches here a burst of all sessions of a backend alike is in time too, up to what the backend
    can bear at all.

    Parameters
    ----------
    plan : ServingPlan
    backends : sequence of Backend
        All that there are.

    Returns
    -------
    ServingPlan

    Examples
    --------
    >>> from optimizer.serving import Backend, BatchingProfile, Session, plan
    >>> profile = BatchingProfile({1: 20, 4: 50, 8: 75, 16: 100})
    >>> backends = [Backend("a"), Backend("b")]
    >>> alone = plan([Session("A", profile, slo_ms=200, rate=8)], backends)
    >>> [(node.backend.name, node.placements[0].batch) for node in alone.nodes]
    [('a', 1)]
    >>> print(spread(alone, backends).explain())
    1 sessions on 2 backends (exact, spread; at least 1)
    a: duty cycle 100.0 ms, 100 % occupied
      A: 4/s in batches of 16 (100.0 ms), worst 200.0 of 200 ms
    b: duty cycle 100.0 ms, 100 % occupied
      A: 4/s in batches of 16 (100.0 ms), worst 200.0 of 200 ms
    """
    known = {session.name: session for session in plan.sessions}
    nodes = list(plan.nodes)
    used = {node.backend.name for node in nodes}
    for backend in backends:
        if backend.name in used:
            continue
        alike = [node for node in _balanced(nodes) if _alike(backend, node.backend)]
        if alike:
            busiest = max(alike, key=_busy)
            idle = tuple(replace(one, rate=0.0) for one in busiest.placements)
            nodes.append(replace(busiest, backend=backend, placements=idle))
    grown = tuple(_grown(node, known) for node in _balanced(nodes))
    return replace(plan, nodes=grown, method=f"{plan.method}, spread", optimal=False)


def _balanced(nodes: Sequence[NodePlan]) -> list[NodePlan]:
    """Have backends of one kind with the same models take equal parts of the requests for each."""
    kinds: dict[tuple[object, ...], list[NodePlan]] = {}
    for node in nodes:
        kinds.setdefault(_kind(node), []).append(node)
    rates = {
        kind: {
            one.session: sum(other.rate for node in same for other in node.placements if other.session == one.session)
            / len(same)
            for one in same[0].placements
        }
        for kind, same in kinds.items()
    }
    return [
        replace(node, placements=tuple(replace(one, rate=rates[_kind(node)][one.session]) for one in node.placements))
        for node in nodes
    ]


def _kind(node: NodePlan) -> tuple[object, ...]:
    return node.backend.speed, node.backend.room, frozenset(one.session for one in node.placements)


def _alike(backend: Backend, other: Backend) -> bool:
    return (backend.speed, backend.room) == (other.speed, other.room)


def _busy(node: NodePlan) -> float:
    """Compute the share of its time that a backend's requests take, in the batches of the plan."""
    return sum(one.rate * one.latency_ms / one.batch for one in node.placements) / 1000


def _grown(node: NodePlan, known: Mapping[str, Session]) -> NodePlan:
    """Plan a node for the largest multiple of its rates that it can bear, and write its own rates into that."""
    sessions = [known[one.session].at_rate(one.rate) for one in node.placements]
    low, step, cycle = 1.0, 1.0, best_cycle(sessions, node.backend.speed, node.backend.room)
    if cycle is None:
        return node
    for _ in range(_DOUBLINGS):
        found = _cycle(node, sessions, low + step)
        if found is None:
            break
        low, cycle, step = low + step, found, 2 * step
    for _ in range(_HALVINGS):
        step /= 2
        found = _cycle(node, sessions, low + step)
        if found is not None:
            low, cycle = low + step, found
    most = node_plan(node.backend, [session.at_rate(low * session.rate) for session in sessions], cycle)
    placements = (replace(large, rate=one.rate) for large, one in zip(most.placements, node.placements, strict=True))
    return replace(most, placements=tuple(placements))


def _cycle(node: NodePlan, sessions: Sequence[Session], times: float) -> float | None:
    return best_cycle([one.at_rate(times * one.rate) for one in sessions], node.backend.speed, node.backend.room)
