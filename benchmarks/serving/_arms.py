"""Arms of the thesis's comparison in simulated time: plan, split, dispatch, and the highest good rate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from benchmarks.serving._search import highest
from benchmarks.serving.simulation import arrival_times, plan_batch_oblivious, simulate, split_evenly
from optimizer.serving import Backend, Dispatch, InfeasibleError, Session, plan, split, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from optimizer.serving import BatchingProfile, Policy, Query, QuerySplit, ServingPlan

__all__ = [
    "CLIPPER",
    "DEFERRED",
    "MAXIMAL",
    "OBLIVIOUS",
    "OURS",
    "PARALLEL",
    "TF_SERVING",
    "Models",
    "Split",
    "good_rate",
    "planned_live",
]

# Of a deadline, what TF Serving's arm waits for a full batch.
_TIMEOUT = 0.25
_PRECISION = 0.02
_SEED = 3


@dataclass(frozen=True)
class Arm:
    """A way to plan and to dispatch.

    Parameters
    ----------
    name : str
    planner : {"ours", "oblivious"}
        Squishy bin packing and query analysis, or shares of backends and even budgets.
    dispatch : {"sliding", "earliest", "maximal", "deferred", "timeout"}
        ``"timeout"`` waits for a full batch and gives up nothing.
    parallel : bool
        Models of a backend run side by side, each at its part of the backend's speed, instead of in turn.
    """

    name: str
    planner: Literal["ours", "oblivious"] = "ours"
    dispatch: Literal["sliding", "earliest", "maximal", "deferred", "timeout"] = "sliding"
    parallel: bool = False


OURS = Arm("ours")
MAXIMAL = Arm("ours, maximal", dispatch="maximal")
DEFERRED = Arm("ours, deferred", dispatch="deferred")
OBLIVIOUS = Arm("batch-oblivious", planner="oblivious")
PARALLEL = Arm("ours, in parallel", parallel=True)
TF_SERVING = Arm("TF-Serving-like", planner="oblivious", dispatch="timeout")
CLIPPER = Arm("Clipper-like", planner="oblivious", dispatch="earliest", parallel=True)


class Load(Protocol):
    """Served models or queries, at any rate."""

    def sessions(self, rate: float, arm: Arm) -> tuple[tuple[Session, ...], tuple[QuerySplit, ...]]:
        """Return the sessions to plan, and the queries that they answer."""

    def traffic(self, rate: float, seconds: float) -> Mapping[str, NDArray[np.float64]]:
        """Draw arrivals."""


@dataclass(frozen=True)
class Models:
    """Requests each of which calls one of some models, and perhaps others beside it, all within one deadline.

    Parameters
    ----------
    one_of : mapping of str to (BatchingProfile, float)
        Models, and the share of the requests that call each.
    slo_ms : float
    beside : mapping of str to (BatchingProfile, int)
        Models that each request calls so often.
    """

    one_of: Mapping[str, tuple[BatchingProfile, float]]
    slo_ms: float
    beside: Mapping[str, tuple[BatchingProfile, int]]

    def sessions(self, rate: float, arm: Arm) -> tuple[tuple[Session, ...], tuple[QuerySplit, ...]]:
        """Return one session per model."""
        del arm
        all_of = {**self.one_of, **self.beside}
        return tuple(Session(name, one, self.slo_ms, rate * times) for name, (one, times) in all_of.items()), ()

    def traffic(self, rate: float, seconds: float) -> Mapping[str, NDArray[np.float64]]:
        """Draw Poisson arrivals, and of each which model it calls."""
        times = arrival_times(rate, seconds, seed=_SEED)
        shares = np.array([share for _, share in self.one_of.values()])
        which = np.random.default_rng(_SEED).choice(len(shares), len(times), p=shares / shares.sum())
        found = {name: times[which == place] for place, name in enumerate(self.one_of)}
        return found | {name: np.repeat(times, count) for name, (_, count) in self.beside.items()}


@dataclass(frozen=True)
class Split:
    """A query whose deadline is split by the arm or by an explicit split.

    Parameters
    ----------
    query : Query
    budgets : callable, optional
    """

    query: Query
    budgets: Callable[[Query], QuerySplit] | None = None

    def sessions(self, rate: float, arm: Arm) -> tuple[tuple[Session, ...], tuple[QuerySplit, ...]]:
        """Split the deadline."""
        by = self.budgets or (split if arm.planner == "ours" else split_evenly)
        found = by(replace(self.query, rate=rate))
        return found.sessions(), (found,)

    def traffic(self, rate: float, seconds: float) -> Mapping[str, NDArray[np.float64]]:
        """Draw Poisson arrivals of the query."""
        return {self.query.name: arrival_times(rate, seconds, seed=_SEED)}


def good_rate(arm: Arm, load: Load, backends: int, seconds: float, guess: float = 100.0) -> float:
    """Search the highest rate at which 99 % of all requests are in time; 0 where no rate is.

    Parameters
    ----------
    arm : Arm
    load : Load
    backends : int
        Planned for the highest rate that they bear by the arm's own reckoning.
    seconds : float
        Of arrivals of each simulation.
    guess : float
        Where to begin.
    """

    def fits(rate: float) -> float:
        try:
            sessions, _ = load.sessions(rate, arm)
        except InfeasibleError:
            return 0.0
        # The exact method would try all groups of a dozen sessions at each rate.
        found = plan(sessions, method="search") if arm.planner == "ours" else plan_batch_oblivious(sessions)
        return min(1.0, backends / len(found.nodes))

    rate = highest(fits, guess, _PRECISION)
    if not rate:
        return 0.0
    sessions, queries = load.sessions(rate, arm)
    live = _live(arm, sessions, backends)
    policy = _timeout(max(one.slo_ms for one in sessions)) if arm.dispatch == "timeout" else arm.dispatch

    def share(at: float) -> float:
        return simulate(live, traffic=load.traffic(at, seconds), queries=queries, policy=policy).good_rate

    return highest(share, rate, _PRECISION)


def planned_live(sessions: Sequence[Session], count: int) -> ServingPlan:
    """Plan sessions as a server does, with all backends available."""
    backends = [Backend(f"backend-{number}") for number in range(count)]
    return spread(plan(sessions, backends, method="search"), backends)


def _live(arm: Arm, sessions: Sequence[Session], count: int) -> ServingPlan:
    """Plan sessions as the arm does."""
    live = planned_live(sessions, count) if arm.planner == "ours" else plan_batch_oblivious(sessions, count)
    if not arm.parallel:
        return live
    apart = [
        replace(
            node, backend=Backend(f"{node.backend.name}/{one.session}", 1 / len(node.placements)), placements=(one,)
        )
        for node in live.nodes
        for one in node.placements
    ]
    return replace(live, nodes=tuple(apart))


def _timeout(budget_ms: float) -> Policy:
    """Run a batch when it is full or when its first request has waited: late ones are answered late."""

    def dispatch(deadlines: Sequence[float], now: float, latencies: Sequence[float], batch: int) -> Dispatch:
        full = min(batch, len(latencies) - 1)
        due = deadlines[0] - (1 - _TIMEOUT) * budget_ms
        if len(deadlines) >= full or now >= due:
            return Dispatch(0, min(full, len(deadlines)))
        return Dispatch(0, 0, due)

    return dispatch
