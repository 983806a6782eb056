"""Replanning for the next epoch: move few models, and release backends that empty (section 3.4.1)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.arguments import real, whole
from optimizer.errors import InvalidArgumentError
from optimizer.serving._backend_pool import Pool
from optimizer.serving._duty_cycles import best_cycle
from optimizer.serving._errors import InfeasibleError
from optimizer.serving._plan import ServingPlan, node_plan
from optimizer.serving._planner import check_sessions, lower_bound, plan, whole_backends

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optimizer.serving._plan import NodePlan
    from optimizer.serving._session import Backend, Session

__all__ = ["Replan", "replan"]

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Replan:
    """A plan and its differences from the previous one. Made by :func:`optimizer.serving.replan`.

    ``loaded`` and ``unloaded`` are pairs of a session and a backend, ``taken`` and ``released`` names of backends.
    """

    plan: ServingPlan
    loaded: tuple[tuple[str, str], ...]
    unloaded: tuple[tuple[str, str], ...]
    taken: tuple[str, ...]
    released: tuple[str, ...]

    def explain(self) -> str:
        """Describe the changes and the plan."""
        changes = [
            *(f"take {name}" for name in self.taken),
            *(f"load {session} on {backend}" for session, backend in self.loaded),
            *(f"unload {session} from {backend}" for session, backend in self.unloaded),
            *(f"release {name}" for name in self.released),
        ]
        return "\n".join([f"changes: {'; '.join(changes) or 'none'}", self.plan.explain()])


def replan(
    old: ServingPlan,
    sessions: Sequence[Session],
    backends: Sequence[Backend] | None = None,
    *,
    memory_bytes: int | None = None,
    quiet: tuple[float, float] = (0.8, 1.1),
    excess: float = 0.1,
    seed: int = 0,
) -> Replan:
    """Plan the next epoch, moving few models.

    Placements stay and follow their sessions' rates. An overloaded backend evicts its cheapest sessions, which are
    packed again; a backend whose sessions all fit elsewhere is released, the emptiest one first.

    Parameters
    ----------
    old : ServingPlan
        Plan of the last epoch.
    sessions : sequence of Session
        Current sessions at their current rates.
    backends : sequence of Backend, optional
        Available backends. A backend of the old plan that is missing is lost. Default: as many equal ones as needed.
    memory_bytes : int, optional
        Bytes of each of those, as for :func:`optimizer.serving.plan`.
    quiet : (float, float)
        Nothing changes while every rate is within these shares of the planned one. Default 0.8 to 1.1.
    excess : float
        All sessions are packed anew if that saves more than this share of the backends. Default 0.1.
    seed : int
        Seed of the search. Default 0.

    Returns
    -------
    Replan
        The plan and its changes.

    Raises
    ------
    InvalidArgumentError, InfeasibleError
        See :func:`optimizer.serving.plan`.

    Examples
    --------
    >>> from optimizer.serving import BatchingProfile, Session, plan
    >>> profile = BatchingProfile({1: 31, 4: 50, 8: 75, 16: 100})
    >>> a, b = Session("A", profile, 200, 60), Session("B", profile, 400, 20)
    >>> first = plan([a, b])
    >>> len(first.nodes), replan(first, [a.at_rate(55), b]).plan is first
    (1, True)
    >>> print(replan(first, [a.at_rate(120), b]).explain().splitlines()[0])
    changes: take backend-1; load B on backend-1; unload B from backend-0
    """
    check_sessions(sessions)
    whole("seed", seed, 0)
    real("excess", excess, 0)
    low, high = (real("quiet", bound, 0) for bound in quiet)
    if not low <= 1 <= high:
        raise InvalidArgumentError(f"quiet must be a share of at most 1 and one of at least 1, got {quiet!r}.")
    names = None if backends is None else {backend.name: backend for backend in backends}
    if _is_quiet(old, sessions, names, low, high):
        return Replan(old, (), (), (), ())
    fresh = plan(sessions, backends, memory_bytes=memory_bytes, seed=seed)
    try:
        carried = _carried(old, sessions, backends, memory_bytes, names, seed)
    except InfeasibleError:
        # There are too few backends to keep the placements, so all sessions are packed anew.
        carried = None
    if carried is None or len(carried.nodes) > (1 + excess) * len(fresh.nodes) + _ROUNDING:
        carried = _renamed(fresh, old, names)
    return _compared(old, carried)


def _is_quiet(
    old: ServingPlan, sessions: Sequence[Session], names: Mapping[str, Backend] | None, low: float, high: float
) -> bool:
    """Return whether the old plan still holds: the same sessions and backends, and rates near the planned ones."""
    before = {session.name: session for session in old.sessions}
    if set(before) != {session.name for session in sessions}:
        return False
    if names is not None and any(names.get(node.backend.name) != node.backend for node in old.nodes):
        return False
    return all(
        session.at_rate(before[session.name].rate) == before[session.name]
        and low * before[session.name].rate <= session.rate <= high * before[session.name].rate
        for session in sessions
    )


def _carried(
    old: ServingPlan,
    sessions: Sequence[Session],
    backends: Sequence[Backend] | None,
    memory_bytes: int | None,
    names: Mapping[str, Backend] | None,
    seed: int,
) -> ServingPlan:
    """Follow the rates on the old backends, then pack what does not fit there, then release what empties."""
    homes = [(node, node.backend if names is None else names.get(node.backend.name)) for node in old.nodes]
    rates = _followed([node for node, backend in homes if backend is not None], sessions)
    known = {session.name: session for session in sessions}
    groups: list[tuple[Backend, list[Session]]] = []
    left = {session.name: session.rate for session in sessions}
    for node, backend in homes:
        if backend is None:
            continue
        members = [
            known[entry.session].at_rate(rate)
            for entry in node.placements
            if (rate := rates.get((node.backend.name, entry.session), 0.0)) > 0
        ]
        _evict(backend, members)
        for session in members:
            left[session.name] -= session.rate
        groups.append((backend, members))
    rest = [
        session.at_rate(left[session.name]) for session in sessions if left[session.name] > _ROUNDING * session.rate
    ]
    rest = _absorbed(groups, rest)
    _release(groups)
    groups = [(backend, members) for backend, members in groups if members]
    nodes = []
    for backend, members in groups:
        cycle = best_cycle(members, backend.speed, backend.room)
        assert cycle is not None  # evicted until it fits
        nodes.append(node_plan(backend, members, cycle))
    if rest:
        used = {backend.name for backend, _ in groups}
        pool = Pool(backends, memory_bytes, used)
        if not pool.kinds:
            raise InfeasibleError(
                f"{len(old.nodes)} backends are too few for {rest[0].name!r} at {rest[0].rate:g}/s. Add backends."
            )
        full, rest = whole_backends(rest, pool)
        nodes += full
        free = None if backends is None else [entry for entry in backends if entry.name not in used | _names(full)]
        nodes += _renumbered(plan(rest, free, memory_bytes=memory_bytes, seed=seed), pool, free)
    return ServingPlan(tuple(nodes), tuple(sessions), lower_bound(sessions, backends), "carried over", optimal=False)


def _names(nodes: Sequence[NodePlan]) -> set[str]:
    return {node.backend.name for node in nodes}


def _renumbered(planned: ServingPlan, pool: Pool, free: Sequence[Backend] | None) -> list[NodePlan]:
    """Assign the next free names to equal backends."""
    if free is not None:
        return list(planned.nodes)
    return [type(node)(pool.take(pool.kinds[0]), node.duty_ms, node.placements) for node in planned.nodes]


def _followed(nodes: Sequence[NodePlan], sessions: Sequence[Session]) -> dict[tuple[str, str], float]:
    """Distribute the current rate of each session over its placements; the smallest shrink first."""
    places: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for node in nodes:
        for placement in node.placements:
            places[placement.session].append((placement.rate, node.backend.name))
    rates: dict[tuple[str, str], float] = {}
    for session in sessions:
        left = session.rate
        for place, (rate, backend) in enumerate(sorted(places[session.name], reverse=True)):
            # The last placement takes the growth, up to the capacity of its backend.
            last = place == len(places[session.name]) - 1
            rates[backend, session.name] = part = min(left, session.peak_rate) if last else min(left, rate)
            left -= part
    return rates


def _evict(backend: Backend, members: list[Session]) -> None:
    """Remove the cheapest sessions from a backend until the others are in time."""
    members.sort(key=lambda session: -session.rate / session.peak_rate)
    while members and best_cycle(members, backend.speed, backend.room) is None:
        members.pop()


def _absorbed(groups: Sequence[tuple[Backend, list[Session]]], rest: Sequence[Session]) -> list[Session]:
    """Add sessions to backends in use, the fullest first; return those that fit on none."""
    left = []
    for session in sorted(rest, key=lambda member: -member.rate / member.peak_rate):
        fullest = sorted(groups, key=lambda group: -sum(member.rate / member.peak_rate for member in group[1]))
        if not any(_joined(backend, members, session) for backend, members in fullest if members):
            left.append(session)
    return left


def _joined(backend: Backend, members: list[Session], session: Session) -> bool:
    """Add a session, or its rate, to a backend if all its sessions stay in time."""
    there = next((member for member in members if member.name == session.name), None)
    joined = [member for member in members if member is not there]
    joined.append(session if there is None else session.at_rate(there.rate + session.rate))
    if best_cycle(joined, backend.speed, backend.room) is None:
        return False
    members[:] = joined
    return True


def _release(groups: Sequence[tuple[Backend, list[Session]]]) -> None:
    """Empty the least used backends whose sessions fit on others."""
    for backend, members in sorted(
        groups, key=lambda group: sum(member.rate / member.peak_rate for member in group[1])
    ):
        others = [(other, list(kept)) for other, kept in groups if other is not backend and kept]
        if members and not _absorbed(others, members):
            for (_, kept), (_, new) in zip(
                [group for group in groups if group[0] is not backend and group[1]], others, strict=True
            ):
                kept[:] = new
            members.clear()


def _renamed(fresh: ServingPlan, old: ServingPlan, names: Mapping[str, Backend] | None) -> ServingPlan:
    """Assign the backends of a new plan to those that have most of their models, among equal ones."""
    matched: dict[int, Backend] = {}
    free = [node for node in old.nodes if names is None or names.get(node.backend.name) == node.backend]
    pairs = sorted(
        (
            (
                -len({entry.session for entry in new.placements} & {entry.session for entry in node.placements}),
                place,
                at,
            )
            for place, new in enumerate(fresh.nodes)
            for at, node in enumerate(free)
            if (new.backend.speed, new.backend.room) == (node.backend.speed, node.backend.room)
        ),
    )
    used: set[int] = set()
    for _, place, at in pairs:
        if place not in matched and at not in used:
            matched[place] = free[at].backend
            used.add(at)
    # Unmatched backends keep their names unless these are in use.
    names_in_use = {backend.name for backend in matched.values()}
    spare = [node.backend for node in [*fresh.nodes] if node.backend.name not in names_in_use]
    nodes = []
    for place, node in enumerate(fresh.nodes):
        backend = matched.get(place)
        if backend is None:
            kind = (node.backend.speed, node.backend.room)
            backend = next(entry for entry in spare if (entry.speed, entry.room) == kind)
            spare.remove(backend)
        nodes.append(type(node)(backend, node.duty_ms, node.placements))
    return ServingPlan(tuple(nodes), fresh.sessions, fresh.bound, fresh.method, fresh.optimal)


def _compared(old: ServingPlan, new: ServingPlan) -> Replan:
    before = {(placement.session, node.backend.name) for node in old.nodes for placement in node.placements}
    after = {(placement.session, node.backend.name) for node in new.nodes for placement in node.placements}
    return Replan(
        new,
        tuple(sorted(after - before)),
        tuple(sorted(before - after)),
        tuple(sorted(_names(new.nodes) - _names(old.nodes))),
        tuple(sorted(_names(old.nodes) - _names(new.nodes))),
    )
