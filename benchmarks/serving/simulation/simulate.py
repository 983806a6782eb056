"""Simulation of a plan: requests, batches, faults and new plans in simulated time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.serving.simulation.arrivals import arrival_times
from benchmarks.serving.simulation.events import Engine
from benchmarks.serving.simulation.front_ends import FrontEnds
from benchmarks.serving.simulation.outcome import Outcome, Served
from benchmarks.serving.simulation.query_calls import CalledQueries
from benchmarks.serving.simulation.queues import Line
from optimizer.arguments import one_of, real, whole
from optimizer.errors import InvalidArgumentError, nearest
from optimizer.serving._dispatch import POLICIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from benchmarks.serving.simulation.arrivals import Arrivals
    from optimizer.serving._dispatch import Policy
    from optimizer.serving._plan import ServingPlan
    from optimizer.serving._query_split import QuerySplit

__all__ = ["simulate"]

_ROUNDING_MS = 1e-6


def simulate(
    plan: ServingPlan,
    seconds: float = 60.0,
    *,
    traffic: Mapping[str, NDArray[np.float64]] | None = None,
    arrivals: Arrivals = "poisson",
    policy: str | Policy = "sliding",
    front_ends: FrontEnds | None = None,
    queries: Sequence[QuerySplit] = (),
    epochs: Sequence[tuple[float, ServingPlan]] = (),
    failures: Sequence[tuple[float, str]] = (),
    seed: int = 0,
) -> Outcome:
    """Serve requests by a plan in simulated time.

    A backend runs one batch at a time, of its sessions in turn, and skips those without requests. Batches take what
    their profiles say, with its deviations where it has any. Equal arguments give equal outcomes.

    Parameters
    ----------
    plan : ServingPlan
    seconds : float
        Of arrivals; the simulation ends when all requests are settled. Default 60.
    traffic : mapping of str to array, optional
        Milliseconds of the arrivals of each session or query, ascending, such as of
        :func:`benchmarks.serving.simulation.arrival_times`. By default drawn at the rates of the plan.
    arrivals : {"poisson", "uniform"}
        How they are drawn. Default ``"poisson"``.
    policy : {"sliding", "earliest", "maximal", "deferred"} or Policy
        Of dispatch, or a function of your own, called as those are. Default ``"sliding"``.
    front_ends : FrontEnds, optional
        By default one, which balances by deficit round robin.
    queries : sequence of QuerySplit
        Whose sessions the plan serves; their requests call models as often as the query says, on average.
    epochs : sequence of (float, ServingPlan)
        A second and the plan that holds from then on, of the same sessions.
    failures : sequence of (float, str)
        A second, and the backend that is lost then.
    seed : int

    Returns
    -------
    Outcome

    Raises
    ------
    InvalidArgumentError
        A value that is not allowed, or traffic, a plan or a failure that names nothing of the plan.

    Examples
    --------
    Figure 3.12: 1,300 requests a second for a model with ``l(b) = 0.69 b + 5`` within 100 ms.

    >>> from optimizer.serving import BatchingProfile, Session, plan
    >>> inception = Session("inception", BatchingProfile.from_line(0.69, 5.0, 128), slo_ms=100, rate=1300)
    >>> found = plan([inception])
    >>> simulate(found, 20, arrivals="uniform").good_rate
    1.0
    >>> simulate(found, 20, policy="earliest").good_rate < 0.5 < 0.97 < simulate(found, 20).good_rate
    True
    """
    real("seconds", seconds, 0, above=True)
    dispatch = policy if callable(policy) else POLICIES[one_of("policy", policy, tuple(POLICIES))]
    ends = front_ends or FrontEnds()
    rng = np.random.default_rng(whole("seed", seed, 0))
    lines = {session.name: Line(session) for one in (plan, *(new for _, new in epochs)) for session in one.sessions}
    engine = Engine(lines, dispatch, ends, rng)
    called = CalledQueries(queries, lines, engine, rng)
    names = {split.query.name: number for number, split in enumerate(queries)}
    given = _traffic(plan, seconds, traffic, arrivals, queries, seed)
    unknown = [name for name in given if name not in lines and name not in names]
    if unknown:
        raise InvalidArgumentError(f"traffic[{unknown[0]!r}] is no session{nearest(unknown[0], [*lines, *names])}")
    engine.adopt(plan)
    for start, new in epochs:
        engine.at(1000 * real("epochs", start, 0), partial(engine.adopt, new))
    known = {part.backend.name for one in (plan, *(new for _, new in epochs)) for part in one.nodes}
    for start, name in failures:
        if name not in known:
            raise InvalidArgumentError(f"failures: no backend {name!r} in the plan{nearest(name, known)}")
        engine.at(1000 * real("failures", start, 0), partial(engine.fail, name, ends.notice_ms))
    for name, number in names.items():
        for time_ms in given.get(name, ()):
            engine.at(float(time_ms), partial(called.arrive, number))
    own = [name for name in given if name in lines]
    times = np.concatenate([np.empty(0), *(given[name] for name in own)])
    whose = np.repeat(np.arange(len(own)), [len(given[name]) for name in own])
    order = np.argsort(times, kind="stable")
    of = [lines[name] for name in own]
    engine.run(times[order].tolist(), [of[place] for place in whose[order].tolist()])
    return _outcome(engine, called, queries, max(seconds, engine.now / 1000))


def _traffic(
    plan: ServingPlan,
    seconds: float,
    traffic: Mapping[str, NDArray[np.float64]] | None,
    arrivals: Arrivals,
    queries: Sequence[QuerySplit],
    seed: int,
) -> dict[str, NDArray[np.float64]]:
    """Return the traffic argument, or draw traffic for sessions and queries."""
    if traffic is not None:
        given = {name: np.asarray(times, np.float64) for name, times in traffic.items()}
        for name, times in given.items():
            if times.ndim != 1 or (np.diff(times) < 0).any() or not np.isfinite(times).all():
                raise InvalidArgumentError(f"traffic[{name!r}]: times in milliseconds that rise")
        return given
    inner = {session.name for split in queries for session in split.sessions()}
    rates = {session.name: session.rate for session in plan.sessions if session.name not in inner}
    rates |= {split.query.name: split.query.rate for split in queries}
    # A seed of its own for each, or all would have the same gaps.
    seeds = np.random.SeedSequence(seed).generate_state(len(rates))
    return {
        name: arrival_times(rate, seconds, arrivals, int(own))
        for (name, rate), own in zip(rates.items(), seeds, strict=True)
    }


def _outcome(engine: Engine, called: CalledQueries, queries: Sequence[QuerySplit], seconds: float) -> Outcome:
    sessions: dict[str, Served] = {}
    for name, line in engine.lines.items():
        overdue = np.array(line.overdue)
        late = int((overdue > _ROUNDING_MS).sum())
        requests = len(overdue) + line.dropped + line.lost
        batches = np.array(line.batches, np.int64)
        latencies = overdue + line.session.slo_ms
        sessions[name] = Served(name, requests, len(overdue) - late, late, line.dropped, line.lost, latencies, batches)
    for number, split in enumerate(queries):
        latencies = np.array(called.latencies[number])
        late = int((latencies > split.query.slo_ms + _ROUNDING_MS).sum())
        sessions[split.query.name] = Served(
            split.query.name,
            called.requests[number],
            len(latencies) - late,
            late,
            called.dropped[number],
            0,
            latencies,
            np.empty(0, np.int64),
        )
    busy = {name: node.busy_ms / (1000 * seconds) for name, node in engine.nodes.items()}
    return Outcome(seconds, sessions, busy, frozenset(split.query.name for split in queries))
