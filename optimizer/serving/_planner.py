"""Planner: whole backends for busy sessions, and squishy bin packing of the remainders."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Literal

import numpy as np

from optimizer.arguments import one_of, whole
from optimizer.errors import InvalidArgumentError
from optimizer.serving._backend_pool import Pool
from optimizer.serving._duty_cycles import TOLERANCE, best_cycle, demand, peak_batch
from optimizer.serving._errors import InfeasibleError
from optimizer.serving._exact_packing import fewest_groups
from optimizer.serving._packing_search import search
from optimizer.serving._plan import NodePlan, ServingPlan, node_plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.serving._session import Backend, Session

__all__ = ["Method", "check_sessions", "lower_bound", "pack", "plan", "whole_backends"]

Method = Literal["auto", "search", "exact"]
_METHODS = ("auto", "search", "exact")
# Largest number of remainders for the exact method, which examines every group that fits.
_FEW = 12
_CLOSED = 1e-6


def plan(
    sessions: Sequence[Session],
    backends: Sequence[Backend] | None = None,
    *,
    memory_bytes: int | None = None,
    method: Method = "auto",
    seed: int = 0,
) -> ServingPlan:
    """Serve sessions in time with as few backends as possible: squishy bin packing (section 3.4.1).

    A session that keeps backends busy gets them alone, at its peak rate. The remainder of each session goes to one
    backend, which others may share.

    Parameters
    ----------
    sessions : sequence of Session
        Sessions to serve.
    backends : sequence of Backend, optional
        Available backends; the fastest are used first. Default: as many equal ones as needed.
    memory_bytes : int, optional
        Bytes of each of those. Default: no limit.
    method : {"auto", "search", "exact"}
        Packing of the remainders. ``"search"`` packs by best fit and improves by repacking; ``"exact"`` proves the
        optimum for up to 12 remainders on equal backends. ``"auto"`` (default) is exact if possible.
    seed : int
        Seed of the search. Default 0.

    Returns
    -------
    ServingPlan
        The plan.

    Raises
    ------
    InvalidArgumentError
        Two sessions or backends have the same name, or an argument is not valid.
    InfeasibleError
        A session's model does not fit into memory, or there are too few backends.

    Examples
    --------
    The example of section 3.2.1: A and B share a backend, and C does not fit beside A:

    >>> from optimizer.serving import BatchingProfile, Session
    >>> a = Session("A", BatchingProfile({1: 31, 4: 50, 8: 75, 16: 100}), slo_ms=200, rate=64)
    >>> b = Session("B", BatchingProfile({1: 20, 4: 50, 8: 90, 16: 125}), slo_ms=250, rate=32)
    >>> c = Session("C", BatchingProfile({1: 34, 4: 60, 8: 95, 16: 125}), slo_ms=250, rate=32)
    >>> print(plan([a, b, c]).explain())
    3 sessions on 2 backends (exact; no plan has fewer)
    backend-0: duty cycle 125.0 ms, 100 % occupied
      A: 64/s in batches of 8 (75.0 ms), worst 200.0 of 200 ms
      B: 32/s in batches of 4 (50.0 ms), worst 175.0 of 250 ms
    backend-1: duty cycle 156.2 ms, 44 % occupied
      C: 32/s in batches of 5 (68.8 ms), worst 225.0 of 250 ms
    """
    check_sessions(sessions)
    one_of("method", method, _METHODS)
    whole("seed", seed, 0)
    pool = Pool(backends, memory_bytes)
    if sessions and not pool.kinds:
        raise InfeasibleError(f"backends must have at least one for {len(sessions)} sessions, got none.")
    nodes, rest = whole_backends(sessions, pool)
    packed, name, optimal = pack(rest, pool, method, seed)
    optimal = optimal and len(pool.kinds) == 1
    return ServingPlan((*nodes, *packed), tuple(sessions), lower_bound(sessions, backends), name, optimal)


def lower_bound(sessions: Sequence[Session], backends: Sequence[Backend] | None = None) -> int:
    """Return a lower bound of the number of backends: rates over peak rates, added and rounded up.

    Backends count as fast as the fastest, with speed 1 by default.

    Examples
    --------
    >>> from optimizer.serving import BatchingProfile, Session
    >>> profile = BatchingProfile({1: 31, 4: 50, 8: 75, 16: 100})
    >>> lower_bound([Session("A", profile, 200, 400)])
    3
    """
    speed = max((backend.speed for backend in backends or ()), default=1.0)
    return math.ceil(sum(_share(session, speed, math.inf) for session in sessions) - _CLOSED)


def check_sessions(sessions: Sequence[Session]) -> None:
    """Refuse two sessions with the same name."""
    names = Counter(session.name for session in sessions)
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise InvalidArgumentError(f"sessions must have unique names, got {twice[0]!r} twice.")


def whole_backends(sessions: Sequence[Session], pool: Pool) -> tuple[list[NodePlan], list[Session]]:
    """Fill whole backends (lines 1 to 7); return these, and the sessions at the remaining rates."""
    nodes: list[NodePlan] = []
    rest: list[Session] = []
    for session in sessions:
        rate = session.rate
        for place, kind in enumerate(pool.kinds):
            batch = peak_batch(session, *kind)
            if not batch:
                if place == len(pool.kinds) - 1 and rate == session.rate:
                    raise _too_large(session, pool)
                continue
            cycle = float(session.profile.latencies[batch]) / kind[0]
            peak = 1000 * batch / cycle
            # A remainder below this is rounding.
            count = int(min(math.floor(rate / peak + _CLOSED), pool.left(kind)))
            nodes += [node_plan(pool.take(kind), [session.at_rate(peak)], cycle, [batch]) for _ in range(count)]
            rate -= count * peak
            if rate <= _CLOSED * peak or pool.left(kind):
                break
        if rate > _CLOSED * session.rate:
            rest.append(session.at_rate(rate))
    return nodes, rest


def pack(rest: Sequence[Session], pool: Pool, method: Method, seed: int) -> tuple[list[NodePlan], str, bool]:
    """Pack remainders; return the shared backends, the method, and whether no packing has fewer."""
    kinds = [kind for kind in pool.kinds if pool.left(kind)]
    if not rest:
        return [], "exact", True
    if not kinds:
        raise _too_few(rest, pool)
    counts = [pool.left(kind) for kind in kinds]
    alike = len(kinds) == 1
    if method == "exact" and (len(rest) > _FEW or not alike):
        raise InvalidArgumentError(
            f"method must be 'search' for more than {_FEW} remainders or several kinds of backends, got 'exact' for "
            f"{len(rest)} remainders on {len(kinds)} kinds."
        )
    exact = method == "exact" or (method == "auto" and alike and len(rest) <= _FEW)
    over: list[int] = []
    groups: list[tuple[int, list[int]]]
    if exact:
        partition = fewest_groups(demand(rest, *kinds[0], most=1 << 30))
        if partition is None or len(partition) > counts[0]:
            raise _too_few(rest, pool)
        groups = [(0, items) for items in partition]
    else:
        weights = np.array([min(_share(session, *kind) for kind in kinds) for session in rest])
        bound = math.ceil(float(weights.sum()) - _CLOSED)
        groups, over = search([demand(rest, *kind) for kind in kinds], counts, weights, bound, seed)
    if over:
        raise _too_few([rest[item] for item in over], pool)
    nodes = []
    for kind, items in groups:
        members = [rest[item] for item in items]
        cycle = best_cycle(members, *kinds[kind])
        if cycle is None:
            raise _too_few(members, pool)
        nodes.append(node_plan(pool.take(kinds[kind]), members, cycle))
    return nodes, "exact" if exact else "search", exact


def _share(session: Session, speed: float, room: float) -> float:
    """Return the least share of a backend that a session needs."""
    batch = peak_batch(session, speed, room)
    if not batch:
        return math.inf
    return session.rate * float(session.profile.latencies[batch]) / speed / (1000 * batch) * (1 - TOLERANCE)


def _too_large(session: Session, pool: Pool) -> InfeasibleError:
    room = max(room for _, room in pool.kinds)
    speed = max(speed for speed, _ in pool.kinds)
    return InfeasibleError(
        f"Session {session.name!r} fits on no backend: a batch of 1 takes {session.profile.latencies[1] / speed:g} ms "
        f"and {session.profile.memory[1]:g} bytes, and {session.slo_ms:g} ms and {room:g} bytes are available."
    )


def _too_few(rest: Sequence[Session], pool: Pool) -> InfeasibleError:
    names = ", ".join(f"{session.name!r} at {session.rate:g}/s" for session in rest[:3])
    more = f" and {len(rest) - 3} more" if len(rest) > 3 else ""
    return InfeasibleError(f"{pool.total:g} backends are too few: {names}{more} fit on none. Add backends.")
