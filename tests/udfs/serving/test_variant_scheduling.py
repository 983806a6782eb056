"""Choice of a variant for each batch of a backend, in simulated time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest

from optimizer.serving import (
    Backend,
    BatchingProfile,
    Ladder,
    Session,
    in_time_behind,
    ladder_shares,
    plan,
    sliding_window,
    spread,
)
from udfs.serving._batch_scheduler import BatchScheduler, Variant, Waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

ARRAYS = {"x": np.zeros(1)}
SLO = 500.0
FULL = BatchingProfile.from_line(20.0, 10.0, 32)
HALF = BatchingProfile.from_line(10.0, 5.0, 32)
TINY = BatchingProfile.from_line(4.0, 2.0, 32)
LADDER = Ladder(("full", "half", "tiny"), (0.95, 0.92, 0.85), (FULL, HALF, TINY))
SESSION = Session("scene", FULL, SLO, 1.0)


def variants(shares: Sequence[float], turn_ms: float) -> list[Variant]:
    return [
        Variant(
            max(1, int(np.searchsorted(profile.latencies, turn_ms * (1 + 1e-9), "right")) - 1),
            profile.latencies.tolist(),
            float(share),
        )
        for profile, share in zip(LADDER.profiles, np.cumsum(shares).round(9), strict=True)
    ]


@dataclass
class Run:
    answered: Counter[str] = field(default_factory=Counter)
    dropped: int = 0
    order: list[str] = field(default_factory=list)

    @property
    def in_time(self) -> float:
        count = sum(self.answered.values())
        return count / (count + self.dropped)

    @property
    def accuracy(self) -> float:
        values = dict(zip(LADDER.names, LADDER.accuracies, strict=True))
        return sum(values[name] * count for name, count in self.answered.items()) / sum(self.answered.values())


def simulate(scheduler: BatchScheduler, names: Sequence[str], arrivals_ms: Sequence[float], slo: float = SLO) -> Run:
    """Run a backend whose batches take as long as their profile says; `names` are those of the variants."""
    profiles = dict(zip(LADDER.names, LADDER.profiles, strict=True))
    run, now, place = Run(), 0.0, 0
    while place < len(arrivals_ms) or scheduler.waiting:
        while place < len(arrivals_ms) and arrivals_ms[place] <= now:
            scheduler.put("scene", Waiting(place, arrivals_ms[place] + slo, "scene"), "", ARRAYS)
            place += 1
        while True:
            unread = scheduler.unread(now)
            run.dropped += len(unread.dropped)
            if unread.content is None:
                break
            scheduler.read("scene", unread.content, ARRAYS)
        due = scheduler.due(now)
        run.dropped += len(due.dropped)
        if not due.batch:
            if place < len(arrivals_ms):
                now = max(now, arrivals_ms[place])
            continue
        name = names[due.variant]
        took = float(profiles[name].latencies[due.size])
        now += took
        assert all(unit.deadline_ms >= now - 1e-6 for unit, _ in due.batch)
        run.answered[name] += due.size
        run.order.append(name)
        scheduler.took("scene", due.size, took, now, due.variant)
    return run


def poisson(rate: float, seconds: float, seed: int = 0, start_ms: float = 0.0) -> list[float]:
    gaps = np.random.default_rng(seed).exponential(1000 / rate, int(rate * seconds))
    return (start_ms + np.cumsum(gaps)).tolist()


def catalog_scheduler(planned_rate: float) -> BatchScheduler:
    session = SESSION.at_rate(planned_rate)
    backends = [Backend("a")]
    shares = ladder_shares([session], {"scene": LADDER}, backends)["scene"]
    (node,) = spread(plan([LADDER.mixed(session, shares)], backends), backends).nodes
    scheduler = BatchScheduler(sliding_window)
    scheduler.place("scene", 1, [0.0, 1.0], variants(shares, node.placements[0].latency_ms))
    return scheduler


def plain_scheduler() -> BatchScheduler:
    scheduler = BatchScheduler(sliding_window)
    scheduler.place("scene", FULL.best_batch(SLO / 2), FULL.latencies.tolist())
    return scheduler


CAPACITY = SESSION.peak_rate


@pytest.mark.parametrize("planned", [1.0, 2 * CAPACITY])
def test_twice_the_capacity_of_the_full_variant_is_in_time(planned: float) -> None:
    """Before the plan knows the load, and afterwards."""
    arrivals = poisson(2 * CAPACITY, 60.0)
    plain = simulate(plain_scheduler(), ["full"], arrivals)
    assert 0.4 < plain.in_time < 0.6
    run = simulate(catalog_scheduler(planned), LADDER.names, arrivals)
    assert run.in_time >= 0.99
    assert LADDER.accuracies[-1] < run.accuracy < LADDER.accuracies[0]


def test_low_load_is_answered_by_the_full_variant() -> None:
    run = simulate(catalog_scheduler(0.3 * CAPACITY), LADDER.names, poisson(0.3 * CAPACITY, 60.0))
    assert run.answered == {"full": sum(run.answered.values())}
    assert run.dropped == 0
