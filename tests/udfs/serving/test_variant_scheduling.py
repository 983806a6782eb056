"""Choice of a variant for each batch of a backend, in simulated time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from optimizer.serving import (
    Backend,
    BatchingProfile,
    Ladder,
    Session,
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
    return [float(at) for at in start_ms + np.cumsum(gaps)]


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


def test_the_full_variant_is_back_after_a_burst() -> None:
    quiet, burst = 0.3 * CAPACITY, 3 * CAPACITY
    arrivals = [
        *poisson(quiet, 20.0),
        *poisson(burst, 5.0, seed=1, start_ms=20_000.0),
        *poisson(quiet, 20.0, seed=2, start_ms=26_000.0),
    ]
    run = simulate(catalog_scheduler(quiet), LADDER.names, sorted(arrivals))
    assert run.in_time >= 0.99
    assert {"full", "tiny"} <= set(run.order)
    assert set(run.order[-50:]) == {"full"}


def test_variants_change_rarely_within_the_shares_of_the_plan() -> None:
    """The shares of the plan hold, in runs of several batches."""
    scheduler = BatchScheduler(sliding_window)
    scheduler.place("scene", 1, [0.0, 1.0], variants((0.5, 0.0, 0.5), 90.0))
    run = simulate(scheduler, LADDER.names, poisson(0.9 * CAPACITY, 60.0))
    count = sum(run.answered.values())
    assert run.answered["full"] / count == pytest.approx(0.5, abs=0.03)
    assert run.answered["half"] == 0
    changes = sum(before != after for before, after in pairwise(run.order))
    assert changes < len(run.order) / 4


def test_a_share_of_zero_is_never_used() -> None:
    scheduler = BatchScheduler(sliding_window)
    scheduler.place("scene", 1, [0.0, 1.0], variants((0.0, 0.0, 1.0), 250.0))
    assert set(simulate(scheduler, LADDER.names, poisson(5.0, 20.0)).answered) == {"tiny"}


def test_a_short_deadline_gets_a_variant_that_meets_it() -> None:
    """A batch of the full variant takes 30 ms, one of the half variant 15 ms, and one of the tiny variant 6 ms."""
    for deadline, name in ((40.0, "full"), (20.0, "half"), (8.0, "tiny")):
        run = simulate(catalog_scheduler(1.0), LADDER.names, [0.0], deadline)
        assert run.answered == {name: 1}
    assert simulate(catalog_scheduler(1.0), LADDER.names, [0.0], 5.0).dropped == 1


def test_rows_behind_a_batch_count_with_those_of_other_groups() -> None:
    """The second row has 60 ms: 30 ms for a full batch of the first one, and 6 ms, but not also 30 ms of group b."""
    for others, variant in ((0, 0), (1, 2)):
        scheduler = BatchScheduler(sliding_window)
        tables = [Variant(1, [0.0, 30.0]), Variant(1, [0.0, 28.0]), Variant(1, [0.0, 6.0])]
        scheduler.place("scene", 1, [0.0, 1.0], tables)
        scheduler.place("b", 1, [0.0, 30.0])
        for number in range(2):
            scheduler.put("scene", Waiting(number, 60.0, "scene"), "", ARRAYS)
        for number in range(others):
            scheduler.put("b", Waiting(10 + number, 1000.0, "b"), "", ARRAYS)
        while (unread := scheduler.unread(0.0)).content is not None:
            scheduler.read(unread.group, unread.content, ARRAYS)
        due = scheduler.due(0.0)
        assert (due.group, due.variant) == ("scene", variant)


def test_new_shares_apply_and_old_ones_keep_what_they_saved() -> None:
    scheduler = BatchScheduler(sliding_window)
    scheduler.place("scene", 1, [0.0, 1.0], variants((0.5, 0.0, 0.5), 90.0))
    simulate(scheduler, LADDER.names, poisson(0.9 * CAPACITY, 10.0))
    (slot,) = scheduler._slots
    saved = [variant.saved for variant in slot.variants]
    scheduler.place("scene", 1, [0.0, 1.0], variants((0.5, 0.0, 0.5), 120.0))
    assert [variant.saved for variant in slot.variants] == saved
    scheduler.place("scene", 1, [0.0, 1.0], variants((0.0, 0.0, 1.0), 120.0))
    assert not slot.variants[0].allowed
