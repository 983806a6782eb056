"""A plan carried over to the next epoch: little moves, and backends that empty are given back (section 3.4.1)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.arguments import real, whole
from optimizer.errors import InvalidArgumentError
from optimizer.serving._demand import best_cycle
from optimizer.serving._errors import InfeasibleError
from optimizer.serving._plan import ServingPlan, node_plan
from optimizer.serving._planner import check_sessions, lower_bound, plan, whole_backends
from optimizer.serving._pool import Pool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optimizer.serving._plan import NodePlan
    from optimizer.serving._session import Backend, Session

__all__ = ["Replan", "replan"]

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Replan:
    """A plan, and how it differs from the one before. Made by :func:`optimizer.serving.replan`.

    Attributes
    ----------
    plan : ServingPlan
    loaded, unloaded : tuple of (str, str)
        Pairs of a session and a backend that has its model now and had not, or the other way round.
    taken, released : tuple of str
        Backends.
    """

    plan: ServingPlan
    loaded: tuple[tuple[str, str], ...]
    unloaded: tuple[tuple[str, str], ...]
    taken: tuple[str, ...]
    released: tuple[str, ...]

    def explain(self) -> str:
        """Describe what changes, and the plan."""
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

    Placements stay and follow their sessions' rates. A backend that has become overloaded evicts its cheapest sessions,
    which are packed again; a backend whose sessions all fit elsewhere is released, the emptiest one first.

    Parameters
    ----------
    old : ServingPlan
    sessions : sequence of Session
        With their rates of today; new ones among them, and without those that are gone.
    backends : sequence of Backend, optional
        What there is today. A backend of the old plan that is missing here is lost. By default as many alike as needed.
    memory_bytes : int, optional
        As of :func:`optimizer.serving.plan`.
    quiet : (float, float)
        While every rate is within these shares of what was planned, nothing changes. Default 0.8 to 1.1.
    excess : float
        Where more than this share of the backends would be saved, all is packed anew. Default 0.1.
    seed : int

    Returns
    -------
    Replan

    Raises
    ------
    InvalidArgumentError
        As of :func:`optimizer.serving.plan`.
    InfeasibleError
        As of :func:`optimizer.serving.plan`.

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
        raise InvalidArgumentError(f"quiet={quiet!r}: a share of at most 1 and one of at least 1")
    names = None if backends is None else {backend.name: backend for backend in backends}
    if _is_quiet(old, sessions, names, low, high):
        return Replan(old, (), (), (), ())
    fresh = plan(sessions, backends, memory_bytes=memory_bytes, seed=seed)
    try:
        carried = _carried(old, sessions, backends, memory_bytes, names, seed)
    except InfeasibleError:
        # Too few backends to keep placements: all is packed anew.
        carried = None
    if carried is None or len(carried.nodes) > (1 + excess) * len(fresh.nodes) + _ROUNDING:
        carried = _renamed(fresh, old, names)
    return _compared(old, carried)


def _is_quiet(
    old: ServingPlan, sessions: Sequence[Session], names: Mapping[str, Backend] | None, low: float, high: float
) -> bool:
    """Tell whether the old plan still does: the same sessions and backends, and rates near the planned ones."""
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
            known[one.session].at_rate(rate)
            for one in node.placements
            if (rate := rates.get((node.backend.name, one.session), 0.0)) > 0
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
            raise InfeasibleError(f"{len(old.nodes)} backends are too few for {rest[0].name!r} at {rest[0].rate:g}/s")
        full, rest = whole_backends(rest, pool)
        nodes += full
        free = None if backends is None else [one for one in backends if one.name not in used | _names(full)]
        nodes += _renumbered(plan(rest, free, memory_bytes=memory_bytes, seed=seed), pool, free)
    return ServingPlan(tuple(nodes), tuple(sessions), lower_bound(sessions, backends), "carried over", optimal=False)


def _names(nodes: Sequence[NodePlan]) -> set[str]:
    return {node.backend.name for node in nodes}


def _renumbered(found: ServingPlan, pool: Pool, free: Sequence[Backend] | None) -> list[NodePlan]:
    """Give backends that are alike the next free names."""
    if free is not None:
        return list(found.nodes)
    return [type(node)(pool.take(pool.kinds[0]), node.duty_ms, node.placements) for node in found.nodes]


def _followed(nodes: Sequence[NodePlan], sessions: Sequence[Session]) -> dict[tuple[str, str], float]:
    """Give the placements of a session its rate of today: less is taken from the smallest first."""
    places: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for node in nodes:
        for one in node.placements:
            places[one.session].append((one.rate, node.backend.name))
    rates: dict[tuple[str, str], float] = {}
    for session in sessions:
        left = session.rate
        for place, (rate, backend) in enumerate(sorted(places[session.name], reverse=True)):
            # The last placement takes what has grown, as far as its backend can bear it.
            last = place == len(places[session.name]) - 1
            rates[backend, session.name] = taken = min(left, session.peak_rate) if last else min(left, rate)
            left -= taken
    return rates


def _evict(backend: Backend, members: list[Session]) -> None:
    """Take the cheapest sessions from a backend until the others are in time."""
    members.sort(key=lambda session: -session.rate / session.peak_rate)
    while members and best_cycle(members, backend.speed, backend.room) is None:
        members.pop()


def _absorbed(groups: Sequence[tuple[Backend, list[Session]]], rest: Sequence[Session]) -> list[Session]:
    """Put sessions onto backends in use, the fullest that bears them; those that none does are left."""
    left = []
    for session in sorted(rest, key=lambda one: -one.rate / one.peak_rate):
        fullest = sorted(groups, key=lambda group: -sum(one.rate / one.peak_rate for one in group[1]))
        if not any(_joined(backend, members, session) for backend, members in fullest if members):
            left.append(session)
    return left


def _joined(backend: Backend, members: list[Session], session: Session) -> bool:
    """Add a session to a backend, or its rate to what is there of it, if all stay in time."""
    there = next((one for one in members if one.name == session.name), None)
    joined = [one for one in members if one is not there]
    joined.append(session if there is None else session.at_rate(there.rate + session.rate))
    if best_cycle(joined, backend.speed, backend.room) is None:
        return False
    members[:] = joined
    return True


def _release(groups: Sequence[tuple[Backend, list[Session]]]) -> None:
    """Empty the backends that are used least, where others bear all of their sessions."""
    for backend, members in sorted(groups, key=lambda group: sum(one.rate / one.peak_rate for one in group[1])):
        others = [(other, list(held)) for other, held in groups if other is not backend and held]
        if members and not _absorbed(others, members):
            for (_, held), (_, new) in zip(
                [group for group in groups if group[0] is not backend and group[1]], others, strict=True
            ):
                held[:] = new
            members.clear()


def _renamed(fresh: ServingPlan, old: ServingPlan, names: Mapping[str, Backend] | None) -> ServingPlan:
    """Put the backends of a new plan where most of their models are, among backends that are alike."""
    taken: dict[int, Backend] = {}
    free = [node for node in old.nodes if names is None or names.get(node.backend.name) == node.backend]
    pairs = sorted(
        (
            (-len({one.session for one in new.placements} & {one.session for one in node.placements}), place, at)
            for place, new in enumerate(fresh.nodes)
            for at, node in enumerate(free)
            if (new.backend.speed, new.backend.room) == (node.backend.speed, node.backend.room)
        ),
    )
    used: set[int] = set()
    for _, place, at in pairs:
        if place not in taken and at not in used:
            taken[place] = free[at].backend
            used.add(at)
    # Backends that nobody was matched to keep their names, unless somebody else has taken them.
    given = {backend.name for backend in taken.values()}
    spare = [node.backend for node in [*fresh.nodes] if node.backend.name not in given]
    nodes = []
    for place, node in enumerate(fresh.nodes):
        backend = taken.get(place)
        if backend is None:
            kind = (node.backend.speed, node.backend.room)
            backend = next(one for one in spare if (one.speed, one.room) == kind)
            spare.remove(backend)
        nodes.append(type(node)(backend, node.duty_ms, node.placements))
    return ServingPlan(tuple(nodes), fresh.sessions, fresh.bound, fresh.method, fresh.optimal)


def _compared(old: ServingPlan, new: ServingPlan) -> Replan:
    before = {(one.session, node.backend.name) for node in old.nodes for one in node.placements}
    after = {(one.session, node.backend.name) for node in new.nodes for one in node.placements}
    return Replan(
        new,
        tuple(sorted(after - before)),
        tuple(sorted(before - after)),
        tuple(sorted(_names(new.nodes) - _names(old.nodes))),
        tuple(sorted(_names(old.nodes) - _names(new.nodes))),
    )
