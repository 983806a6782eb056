"""The planner of serving: whole backends for busy sessions, and squishy bin packing of what remains."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Literal

import numpy as np

from optimizer.arguments import one_of, whole
from optimizer.errors import InvalidArgumentError
from optimizer.serving._demand import TOLERANCE, best_cycle, demand, peak_batch
from optimizer.serving._errors import InfeasibleError
from optimizer.serving._exact import fewest_groups
from optimizer.serving._plan import NodePlan, ServingPlan, node_plan
from optimizer.serving._pool import Pool
from optimizer.serving._search import search
from optimizer.serving._squishy import merge_by_occupancy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.serving._session import Backend, Session

__all__ = ["Method", "check_sessions", "lower_bound", "pack", "plan", "whole_backends"]

Method = Literal["auto", "squishy", "search", "exact"]
_METHODS = ("auto", "squishy", "search", "exact")
# The exact method looks at each group that fits.
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

    A session that keeps backends busy has them to itself, at its peak rate. What remains of each session goes to one
    backend, which others may share.

    Parameters
    ----------
    sessions : sequence of Session
    backends : sequence of Backend, optional
        What there is; the fastest are taken first. By default as many alike as needed.
    memory_bytes : int, optional
        Of each of those. By default no limit.
    method : {"auto", "squishy", "search", "exact"}
        ``"squishy"`` is Algorithm 3.1, ``"search"`` improves on it, ``"exact"`` proves the optimum for up to 12
        remainders on backends that are alike. ``"auto"`` (default) is exact where that is possible.
    seed : int
        Of the search. Default 0.

    Returns
    -------
    ServingPlan

    Raises
    ------
    InvalidArgumentError
        Two sessions or backends of one name, or a value that is not allowed.
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
        raise InfeasibleError(f"{len(sessions)} sessions and no backend: give at least one")
    nodes, rest = whole_backends(sessions, pool)
    packed, name, optimal = pack(rest, pool, method, seed)
    optimal = optimal and len(pool.kinds) == 1
    return ServingPlan((*nodes, *packed), tuple(sessions), lower_bound(sessions, backends), name, optimal)


def lower_bound(sessions: Sequence[Session], backends: Sequence[Backend] | None = None) -> int:
    """Count the backends that no plan can do without: rates over peak rates, added and rounded up.

    Parameters
    ----------
    sessions : sequence of Session
    backends : sequence of Backend, optional
        All are taken to be as fast as the fastest of them. Default speed 1.

    Returns
    -------
    int

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
    """Refuse two sessions of one name."""
    names = Counter(session.name for session in sessions)
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise InvalidArgumentError(f"two sessions are named {twice[0]!r}: give each a name of its own")


def whole_backends(sessions: Sequence[Session], pool: Pool) -> tuple[list[NodePlan], list[Session]]:
    """Fill whole backends, lines 1 to 7: those that are full, and the sessions at the rates that remain."""
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
    """Pack remainders: the backends that they share, who packed, and whether nobody can do with fewer."""
    kinds = [kind for kind in pool.kinds if pool.left(kind)]
    if not rest:
        return [], "exact", True
    if not kinds:
        raise _too_few(rest, pool)
    counts = [pool.left(kind) for kind in kinds]
    alike = len(kinds) == 1
    if method == "exact" and (len(rest) > _FEW or not alike):
        raise InvalidArgumentError(
            f"method='exact' with {len(rest)} remainders on {len(kinds)} kinds of backends: at most {_FEW} on one "
            "kind; take 'search'"
        )
    exact = method == "exact" or (method == "auto" and alike and len(rest) <= _FEW)
    cycles: list[float | None] = []
    over: list[int] = []
    groups: list[tuple[int, list[int]]]
    if method == "squishy":
        merged, over = merge_by_occupancy(rest, kinds, counts)
        groups = [(kind, items) for kind, items, _ in merged]
        cycles = [cycle for _, _, cycle in merged]
    elif exact:
        found = fewest_groups(demand(rest, *kinds[0], most=1 << 30))
        if found is None or len(found) > counts[0]:
            raise _too_few(rest, pool)
        groups = [(0, items) for items in found]
    else:
        weights = np.array([min(_share(session, *kind) for kind in kinds) for session in rest])
        bound = math.ceil(float(weights.sum()) - _CLOSED)
        groups, over = search([demand(rest, *kind) for kind in kinds], counts, weights, bound, seed)
    if over:
        raise _too_few([rest[item] for item in over], pool)
    nodes = []
    for place, (kind, items) in enumerate(groups):
        members = [rest[item] for item in items]
        cycle = cycles[place] if cycles else best_cycle(members, *kinds[kind])
        if cycle is None:
            raise _too_few(members, pool)
        nodes.append(node_plan(pool.take(kinds[kind]), members, cycle))
    return nodes, "Algorithm 3.1" if method == "squishy" else "exact" if exact else "search", exact


def _share(session: Session, speed: float, room: float) -> float:
    """Share of a backend that a session needs at least."""
    batch = peak_batch(session, speed, room)
    if not batch:
        return math.inf
    return session.rate * float(session.profile.latencies[batch]) / speed / (1000 * batch) * (1 - TOLERANCE)


def _too_large(session: Session, pool: Pool) -> InfeasibleError:
    room = max(room for _, room in pool.kinds)
    speed = max(speed for speed, _ in pool.kinds)
    return InfeasibleError(
        f"session {session.name!r}: no backend serves a batch of 1 within {session.slo_ms:g} ms and {room:g} bytes; "
        f"it takes {session.profile.latencies[1] / speed:g} ms and {session.profile.memory[1]:g} bytes"
    )


def _too_few(rest: Sequence[Session], pool: Pool) -> InfeasibleError:
    names = ", ".join(f"{session.name!r} at {session.rate:g}/s" for session in rest[:3])
    more = f" and {len(rest) - 3} more" if len(rest) > 3 else ""  # as many are shown
    return InfeasibleError(f"{pool.total:g} backends are too few: {names}{more} fit on none; add backends")
