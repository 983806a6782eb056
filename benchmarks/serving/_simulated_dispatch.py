"""Dispatch, balancing and epochs in simulated time."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.serving._lines import INCEPTION, RESNET50, SSD
from benchmarks.serving._packing import drawn_sessions
from benchmarks.serving.simulation import BALANCERS, FrontEnds, arrival_times, plan_batch_oblivious, simulate
from optimizer.serving import POLICIES, BatchingProfile, Session, plan, replan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.harness.report import Report
    from optimizer.serving import ServingPlan

__all__ = ["balancing", "dispatch", "oblivious", "workload"]

_GOOD = 0.99
_BACKENDS = 8
# Seconds into an epoch at which the plan for its rates is in force.
_NOTICED = 3.0


def dispatch(report: Report, seconds: float) -> None:
    """Redo Figures 3.12 and 3.13, and overload by two; time a million requests."""
    session = Session("inception", INCEPTION, 100, 1300)
    found = plan([session])
    at_most = 1300 * simulate(found, seconds).good_rate
    twice = {"inception": arrival_times(2600, seconds, seed=1)}
    rows = []
    paper = {"earliest": "73 % (Poisson)", "sliding": "1.3 %", "maximal": "1.7 %"}
    for policy in POLICIES:
        runs = [simulate(found, seconds, arrivals=kind, policy=policy) for kind in ("uniform", "poisson")]
        over = 2600 * simulate(found, traffic=twice, policy=policy).good_rate / at_most
        sizes = runs[1].sessions["inception"].batches
        missed = [f"{100 * (1 - run.good_rate):.2f} %" for run in runs]
        rows.append((policy, *missed, f"{sizes.mean():.1f}", f"{over:.2f}", f"paper: {paper.get(policy, 'not in it')}"))
        if policy in {"sliding", "earliest"}:
            target = 0.9 if policy == "sliding" else None
            report.ratio(f"overload_{policy}", over, f"good rate at 2,600/s / at 1,300/s, {policy}", target)
    columns = ("policy", "missed, uniform", "missed, Poisson", "mean batch", "at twice the load", "")
    report.table("Figures 3.12 and 3.13: l(b) = 0.69 b + 5 ms, SLO 100 ms, 1,300/s, planned batch 65", columns, rows)
    large = plan([Session("inception", INCEPTION, 100, 17_000)])
    started = time.process_time()
    outcome = simulate(large, 60)
    took = time.process_time() - started
    count = outcome.sessions["inception"].requests
    report.note(f"{count:,} requests of a minute on {len(large.nodes)} backends: simulated in {took:.1f} CPU s.")


def balancing(report: Report, seconds: float) -> None:
    """Redo Table 3.6: the highest rate of four backends at which 99 % are in time."""
    rows = []
    for slo, batch in ((200, 3), (400, 7), (600, 11)):
        rate = 4 * Session("ssd", SSD, slo, 1).peak_rate
        found = plan([Session("ssd", SSD, slo, rate)])
        best = {name: rate * _highest(_good_of(found, rate, name, seconds)) for name in BALANCERS}
        shares = [f"{best[name]:.0f} ({100 * best[name] / best['centralized']:.0f} %)" for name in BALANCERS]
        planned = found.nodes[0].placements[0].batch
        rows.append((f"{slo} ms", f"{planned} ({batch})", *shares, f"{rate:.0f}/s planned"))
    columns = ("SLO", "batch (paper)", *BALANCERS, "")
    report.table("Table 3.6: SSD on 4 backends, requests/s with 99 % in time, and share of centralized", columns, rows)
    report.note("Paper: two choices 86.6, 99.5 and 100 % of centralized, weighted random 76.8, 89.5 and 95.1 %.")


def _good_of(found: ServingPlan, rate: float, name: str, seconds: float) -> Callable[[float], float]:
    """Make the share in time of a balancer's requests, by the share of the planned rate."""

    def good(factor: float) -> float:
        traffic = {"ssd": arrival_times(factor * rate, seconds, seed=2)}
        return simulate(found, traffic=traffic, front_ends=FrontEnds(name)).good_rate

    return good


def oblivious(report: Report, seconds: float) -> None:
    """Redo Figure 3.19: the highest load of 8 backends, planned with batches and without."""
    rng = np.random.default_rng(0)
    zipf = 1 / np.arange(1, 17) ** 0.9
    settings = {
        "mixed SLOs": [(INCEPTION, RESNET50)[n % 2] for n in range(16)],
        "mixed rates": [(INCEPTION, RESNET50)[n % 2] for n in range(16)],
        "mixed models": [
            BatchingProfile.from_line(float(per), float(fixed), 64)
            for per, fixed in zip(rng.uniform(0.1, 1.5, 8).repeat(2), rng.uniform(0.5, 6, 8).repeat(2), strict=True)
        ],
    }
    rows = []
    for name, profiles in settings.items():
        slos = np.linspace(50, 200, 16) if name == "mixed SLOs" else np.tile([50, 100], 8)
        if name == "mixed rates":
            slos = np.full(16, 100)
        rates = zipf / zipf.mean() if name == "mixed rates" else np.ones(16)
        shapes = list(zip(profiles, slos.tolist(), rates.tolist(), strict=True))
        cells = []
        for each in (False, True):
            ours, theirs = _borne(shapes, seconds, each=each)
            # If the baseline serves no session well enough, divide by the lowest rate that was tried.
            gain = ours / max(theirs, 1.0)
            cells += [f"{ours:.0f}", f"{theirs:.0f}"]
            key = f"oblivious_{name.replace(' ', '_')}{'_each' if each else ''}"
            whose = "each session" if each else "all requests"
            report.ratio(key, gain, f"requests/s of 8 backends, ours / batch-oblivious, 99 % of {whose}, simulated")
        rows.append((name, *cells, "paper, of all: 1.11 to 1.64"))
    columns = ("16 sessions", "ours, of all", "baseline", "ours, of each", "baseline", "")
    report.table("Figure 3.19: requests/s of 8 backends with 99 % in time", columns, rows)
    report.note(
        "The baseline is spread evenly over the 8 backends and dispatched as ours is; ours packs for the worst case, "
        "and its backends are not equally full."
    )


def workload(report: Report, epochs: int) -> None:
    """Redo Figure 3.22: ten applications whose load rises and falls, with a new plan every 30 seconds."""
    base = drawn_sessions(7, 10, 20, 120)
    rng = np.random.default_rng(1)
    turns = np.linspace(0, 2 * np.pi, epochs)
    factors = 1.2 + np.sin(turns - np.pi / 2)[:, None] + rng.uniform(0, 0.6, (epochs, len(base)))
    old: ServingPlan | None = None
    plans, moved, quiet = [], 0, 0
    for number in range(epochs):
        sessions = [one.at_rate(1.25 * one.rate * float(by)) for one, by in zip(base, factors[number], strict=True)]
        if old is None:
            old = plan(sessions)
        else:
            new = replan(old, sessions)
            moved += len(new.loaded)
            quiet += new.plan is old
            old = new.plan
        plans.append((30.0 * number + _NOTICED, old))
    traffic = {}
    for place, one in enumerate(base):
        rates = [(30.0 * number, one.rate * float(by)) for number, by in enumerate(factors[:, place])]
        traffic[one.name] = arrival_times(rates, 30.0 * epochs, seed=place)
    changes = [(at, new) for (_, before), (at, new) in pairwise(plans) if new is not before]
    outcome = simulate(plans[0][1], 30.0 * epochs, traffic=traffic, epochs=changes)
    used = [len(one.nodes) for _, one in plans]
    fixed = max(used)
    load = f"load x{factors.mean(1).min():.1f} to x{factors.mean(1).max():.1f}"
    good = f"{100 * outcome.good_rate:.2f} % of {sum(map(len, traffic.values())):,} requests in time"
    report.note(
        f"Figure 3.22: {epochs} epochs of 30 s, 10 sessions, {load}: {good} on {min(used)} to {fixed} backends, "
        f"{moved} models loaded, {quiet} epochs without a change. A change of rates is planned for {_NOTICED:g} s "
        "later, with a quarter of slack."
    )
    report.ratio("workload_good_rate", outcome.good_rate, "requests in time, load rises and falls, simulated")
    report.ratio("workload_backends", fixed * epochs / sum(used), "backend seconds of the peak's plan / of the epochs'")


def _borne(
    shapes: Sequence[tuple[BatchingProfile, float, float]], seconds: float, *, each: bool
) -> tuple[float, float]:
    """Find the most requests per second that 8 backends answer in time, by our plan and by the baseline's.

    Ours is the plan for the highest rates that 8 backends bear for certain; traffic may be heavier. In time are 99 % of
    all requests, or of each session's.
    """

    def sessions(rate: float) -> list[Session]:
        return [
            Session(f"s{number}", profile, slo, share * rate / len(shapes))
            for number, (profile, slo, share) in enumerate(shapes)
        ]

    def borne(found: ServingPlan, rate: float) -> float:
        traffic = {one.name: arrival_times(one.rate, seconds, seed=at) for at, one in enumerate(sessions(rate))}
        outcome = simulate(found, traffic=traffic)
        return min(one.good_rate for one in outcome.sessions.values()) if each else outcome.good_rate

    most = 8000.0
    planned = most * _highest(lambda factor: float(len(plan(sessions(most * factor)).nodes) <= _BACKENDS), 9)
    ours = plan(sessions(planned))
    oblivious_plan = plan_batch_oblivious(sessions(planned), _BACKENDS)
    first, second = (
        most * _highest(lambda factor, found=found: borne(found, most * factor))  # type: ignore[misc]
        for found in (ours, oblivious_plan)
    )
    return first, second


def _highest(good: Callable[[float], float], steps: int = 7) -> float:
    """Find the largest factor at which 99 % are in time, by halving."""
    low, high = 0.0, 1.2
    for _ in range(steps):
        middle = (low + high) / 2
        if good(middle) >= _GOOD:
            low = middle
        else:
            high = middle
    return low
