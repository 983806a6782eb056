"""Spread of a plan over idle backends, with batches as large as deadlines allow."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from optimizer.serving._duty_cycles import best_cycle
from optimizer.serving._plan import NodePlan, ServingPlan, node_plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optimizer.serving._session import Backend, Session

__all__ = ["spread"]

# Doublings of a backend's rates that are tried, and halvings of the last step.
_DOUBLINGS, _HALVINGS = 24, 12


def spread(plan: ServingPlan, backends: Sequence[Backend]) -> ServingPlan:
    """Share the work of a plan with idle backends, and let every batch grow as far as deadlines allow.

    A plan uses as few backends as possible and fills them in turn. Each idle backend gets the models of the busiest
    one, and equal backends with the same models get equal parts of their requests, so that a lost backend is replaced
    without loading a model. The larger batches keep a burst of all sessions of a backend in time, up to the backend's
    capacity.

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
    a: duty cycle 100.0 ms, 8.0 % occupied
      A: 4/s in batches of 16 (100.0 ms), worst 200.0 of 200 ms
    b: duty cycle 100.0 ms, 8.0 % occupied
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
            idle = tuple(replace(placement, rate=0.0) for placement in busiest.placements)
            nodes.append(replace(busiest, backend=backend, placements=idle))
    grown = tuple(_grown(node, known) for node in _balanced(nodes))
    return replace(plan, nodes=grown, method=f"{plan.method}, spread", optimal=False)


def _balanced(nodes: Sequence[NodePlan]) -> list[NodePlan]:
    """Distribute requests equally over equal backends with the same models."""
    kinds: dict[tuple[object, ...], list[NodePlan]] = {}
    for node in nodes:
        kinds.setdefault(_kind(node), []).append(node)
    rates = {
        kind: {
            placement.session: sum(
                other.rate for node in same for other in node.placements if other.session == placement.session
            )
            / len(same)
            for placement in same[0].placements
        }
        for kind, same in kinds.items()
    }
    return [
        replace(
            node,
            placements=tuple(
                replace(placement, rate=rates[_kind(node)][placement.session]) for placement in node.placements
            ),
        )
        for node in nodes
    ]


def _kind(node: NodePlan) -> tuple[object, ...]:
    return node.backend.speed, node.backend.room, frozenset(placement.session for placement in node.placements)


def _alike(backend: Backend, other: Backend) -> bool:
    return (backend.speed, backend.room) == (other.speed, other.room)


def _busy(node: NodePlan) -> float:
    """Return the share of its time that a backend's requests take, in the batches of the plan."""
    return sum(placement.rate * placement.latency_ms / placement.batch for placement in node.placements) / 1000


def _grown(node: NodePlan, known: Mapping[str, Session]) -> NodePlan:
    """Plan a backend for the largest multiple of its rates that it can serve, and keep its own rates."""
    sessions = [known[placement.session].at_rate(placement.rate) for placement in node.placements]
    low, step, cycle = 1.0, 1.0, best_cycle(sessions, node.backend.speed, node.backend.room)
    if cycle is None:
        return node
    # The larger batches run when traffic grows; at its own rates a backend runs smaller batches in longer cycles.
    busy = node_plan(node.backend, sessions, cycle).occupancy
    for _ in range(_DOUBLINGS):
        longer = _cycle(node, sessions, low + step)
        if longer is None:
            break
        low, cycle, step = low + step, longer, 2 * step
    for _ in range(_HALVINGS):
        step /= 2
        longer = _cycle(node, sessions, low + step)
        if longer is not None:
            low, cycle = low + step, longer
    most = node_plan(node.backend, [session.at_rate(low * session.rate) for session in sessions], cycle)
    placements = (
        replace(large, rate=placement.rate) for large, placement in zip(most.placements, node.placements, strict=True)
    )
    return replace(most, placements=tuple(placements), busy=busy)


def _cycle(node: NodePlan, sessions: Sequence[Session], times: float) -> float | None:
    return best_cycle(
        [session.at_rate(times * session.rate) for session in sessions], node.backend.speed, node.backend.room
    )
