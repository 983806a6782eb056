"""Algorithm 3.1: best fit decreasing, where two backends merge in the shorter of their duty cycles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.serving import InfeasibleError, ServingPlan, lower_bound
from optimizer.serving._backend_pool import Pool
from optimizer.serving._duty_cycles import TOLERANCE, batch_in, longest_cycle
from optimizer.serving._plan import node_plan
from optimizer.serving._planner import check_sessions, whole_backends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.serving import Backend, Session
    from optimizer.serving._backend_pool import Kind

__all__ = ["plan_by_algorithm_3_1"]


def plan_by_algorithm_3_1(
    sessions: Sequence[Session], backends: Sequence[Backend] | None = None, *, memory_bytes: int | None = None
) -> ServingPlan:
    """Plan by Algorithm 3.1 of the thesis, which :func:`optimizer.serving.plan` improves on.

    Parameters
    ----------
    sessions : sequence of Session
        Sessions to serve.
    backends : sequence of Backend, optional
        Available backends. Default: as many equal ones as needed.
    memory_bytes : int, optional
        Bytes of each of those. Default: no limit.

    Returns
    -------
    ServingPlan
        The plan.

    Raises
    ------
    InfeasibleError
        There are too few backends.
    """
    check_sessions(sessions)
    pool = Pool(backends, memory_bytes)
    nodes, rest = whole_backends(sessions, pool)
    kinds = [kind for kind in pool.kinds if pool.left(kind)]
    merged, over = _merge_by_occupancy(rest, kinds, [pool.left(kind) for kind in kinds]) if rest else ([], [])
    if over:
        raise InfeasibleError(f"{pool.total:g} backends are too few for {rest[over[0]].name!r}.")
    for kind, items, cycle in merged:
        nodes.append(node_plan(pool.take(kinds[kind]), [rest[item] for item in items], cycle))
    return ServingPlan(tuple(nodes), tuple(sessions), lower_bound(sessions, backends), "Algorithm 3.1", optimal=False)


def _merge_by_occupancy(
    sessions: Sequence[Session], kinds: Sequence[Kind], counts: Sequence[float]
) -> tuple[list[tuple[int, list[int], float]], list[int]]:
    """Pack remainders as lines 8 to 25 do, with memory and the wait of slow sessions.

    Parameters
    ----------
    sessions : sequence of Session
        At the rates that are left to be packed.
    kinds : sequence of (float, float)
        Speeds and memory of backends, the fastest first.
    counts : sequence of float
        Backends of each.

    Returns
    -------
    (list of (int, list of int, float), list of int)
        Kind, sessions and duty cycle of each backend; and the sessions that no backend was left for.
    """
    left = list(counts)
    # On the fastest kind, for the order alone.
    cycles = [longest_cycle(session, *kinds[0]) for session in sessions]
    alone = [_occupancy([session], kinds[0], cycle) or 0.0 for session, cycle in zip(sessions, cycles, strict=True)]
    nodes: list[tuple[int, list[int], float]] = []
    over = []
    for item in sorted(range(len(sessions)), key=lambda place: -alone[place]):
        best, best_occupancy = None, 0.0
        for place, (kind, items, cycle) in enumerate(nodes):
            own = cycles[item] if kind == 0 else longest_cycle(sessions[item], *kinds[kind])
            shorter = min(cycle, own)
            occupancy = _occupancy([sessions[one] for one in (*items, item)], kinds[kind], shorter)
            if own and occupancy is not None and occupancy > best_occupancy:
                best, best_occupancy = (place, (kind, [*items, item], shorter)), occupancy
        if best is not None:
            nodes[best[0]] = best[1]
            continue
        for kind, own_kind in enumerate(kinds):
            own = longest_cycle(sessions[item], *own_kind)
            if left[kind] > 0 and own and _occupancy([sessions[item]], own_kind, own) is not None:
                left[kind] -= 1
                nodes.append((kind, [item], own))
                break
        else:
            over.append(item)
    return nodes, over


def _occupancy(sessions: Sequence[Session], kind: Kind, cycle: float) -> float | None:
    """Compute how full a backend is in a duty cycle; None where its batches or models do not fit."""
    speed, room = kind
    if not cycle:
        return None
    batches = [batch_in(session.rate, cycle) for session in sessions]
    if any(batch > session.profile.max_batch for batch, session in zip(batches, sessions, strict=True)):
        return None
    pairs = list(zip(batches, sessions, strict=True))
    busy = sum(float(session.profile.latencies[batch]) for batch, session in pairs) / speed
    held = sum(float(session.profile.memory[batch]) for batch, session in pairs)
    return busy / cycle if busy <= cycle * (1 + TOLERANCE) and held <= room else None
