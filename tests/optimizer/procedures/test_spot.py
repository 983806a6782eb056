"""Expected times and costs on spot machines, against a simulation of the events of a day."""

from __future__ import annotations

import heapq
import math

import numpy as np
import pytest

from optimizer.errors import InvalidArgumentError
from optimizer.procedures import Offer, Spot, cost_front

HOUR = 3600.0


def simulate(spot: Spot, workers: int, unit: float, units: int, seed: int) -> tuple[float, int]:
    """Run units on workers that are interrupted at random; return the seconds of the run and the interruptions.

    A worker with a notice ends its unit if it can within the grace period; otherwise another worker trains the whole
    unit again. It comes back after the restart time. Nothing is ours here but the numbers.
    """
    draw = np.random.default_rng(seed)
    mean = HOUR / spot.interruptions_per_hour
    # By worker, the time when it asks for a unit; then the time of its next interruption.
    free = [(0.0, number) for number in range(workers)]
    notice = draw.exponential(mean, workers)
    heapq.heapify(free)
    left, ends, interruptions = units, [], 0
    while left:
        now, worker = heapq.heappop(free)
        if notice[worker] <= now:
            # Between two units, or in the grace period after the last one.
            interruptions += 1
            back = max(now, notice[worker]) + spot.restart_s
            notice[worker] = back + draw.exponential(mean)
            heapq.heappush(free, (back, worker))
            continue
        end = now + unit
        if notice[worker] + spot.grace_s < end:
            # The unit is lost: the worker trains up to the end of the grace period for nothing.
            interruptions += 1
            back = notice[worker] + spot.grace_s + spot.restart_s
            notice[worker] = back + draw.exponential(mean)
            heapq.heappush(free, (back, worker))
            continue
        left -= 1
        ends.append(end)
        heapq.heappush(free, (end, worker))
    return max(ends), interruptions


@pytest.mark.parametrize(("unit", "grace"), [(60.0, 0.0), (300.0, 0.0), (300.0, 120.0), (60.0, 120.0)])
def test_a_day_of_interruptions(unit: float, grace: float) -> None:
    """16 workers for about a day, each interrupted once in two hours."""
    spot = Spot(price=0.3, interruptions_per_hour=0.5, grace_s=grace, restart_s=240.0)
    workers = 16
    units = round(24 * HOUR * workers / unit)
    plain = units / workers * unit
    (offer,) = spot.priced([Offer(workers, plain)], unit, price=1.0)
    assert offer.expected_seconds is not None
    assert offer.interruptions is not None
    runs = [simulate(spot, workers, unit, units, seed) for seed in range(20)]
    seconds, interruptions = np.mean(runs, axis=0)
    assert plain < offer.expected_seconds
    # Interruptions cost an eighth of the time at most here; the formula is a first order of it.
    assert offer.expected_seconds - plain == pytest.approx(seconds - plain, rel=0.15)
    assert offer.expected_seconds == pytest.approx(seconds, rel=0.01)
    assert offer.interruptions == pytest.approx(interruptions, rel=0.06)


def test_half_a_unit_is_lost_without_a_notice_and_nothing_with_a_long_one() -> None:
    """Young's model: half of the interval between two checkpoints."""
    assert Spot(1.0, 1.0, grace_s=0.0).lost_seconds(100.0) == 50.0
    assert Spot(1.0, 1.0, grace_s=100.0).lost_seconds(100.0) == 0.0
    left = np.random.default_rng(0).uniform(0.0, 100.0, 200_000)
    wasted = np.where(left > 30.0, 100.0 - left + 30.0, 0.0)
    assert Spot(1.0, 1.0, grace_s=30.0).lost_seconds(100.0) == pytest.approx(wasted.mean(), rel=0.01)


def test_costs_and_the_front() -> None:
    spot = Spot(price=0.25, interruptions_per_hour=1.0, grace_s=60.0, restart_s=360.0)
    offers = spot.priced([Offer(1, 7200.0), Offer(2, 3600.0), Offer(4, 3600.0)], 60.0, price=1.0)
    assert [offer.cost for offer in offers] == [2.0, 2.0, 4.0]
    assert [offer.expected_seconds for offer in offers] == pytest.approx([7920.0, 3960.0, 3960.0])
    assert [offer.expected_cost for offer in offers] == pytest.approx([0.55, 0.55, 1.1])
    assert [offer.interruptions for offer in offers] == pytest.approx([2.0, 2.0, 4.0])
    assert "on spot machines 3960 s, 0.55 expected, with 2 interruptions" in str(offers[1])
    assert [(option.kind, option.workers) for option in cost_front(offers)] == [("on demand", 2), ("spot", 2)]
    assert cost_front([Offer(1, 5.0)]) == ()


def test_interruptions_that_come_faster_than_units_end() -> None:
    spot = Spot(price=0.1, interruptions_per_hour=60.0, grace_s=0.0)
    (offer,) = spot.priced([Offer(1, HOUR)], unit_seconds=HOUR)
    assert offer.expected_seconds == math.inf
    assert offer.cost is None
    assert cost_front([offer]) == ()


@pytest.mark.parametrize("name", ["price", "interruptions_per_hour", "grace_s", "restart_s"])
def test_numbers_that_are_not_allowed(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"{name} must be a number of at least 0, got -1"):
        Spot(**{"price": 1.0, "interruptions_per_hour": 1.0, name: -1.0})
    with pytest.raises(InvalidArgumentError, match=r"unit_seconds must be a number above 0, got 0"):
        Spot(1.0, 1.0).lost_seconds(0)
