"""Estimates, progress and cancellation of a heat map, told as its places are computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from optimizer.graph import Layer, LayerGraph
from optimizer.occlusion import OcclusionGrid, update_patches
from udfs.occlusion import Occlusion, Pace
from vista_spark.errors import ExplanationCancelledError
from vista_spark.occlusion import OcclusionOptions, Progress, _monitor
from vista_spark.occlusion._monitor import Monitor

if TYPE_CHECKING:
    from collections.abc import Callable

GRID = OcclusionGrid((80, 80), (8, 8), (8, 8))


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(_monitor, "time", made)
    return made


def pace(run: float | None = None) -> Pace:
    graph = LayerGraph(
        [Layer("image", "input", (), (3, 80, 80)), Layer("dense", "Linear", ("image",), (2,), flops=9)], ["dense"]
    )
    made = Pace(update_patches(graph, GRID), Occlusion(GRID, (0.0,) * 3, mode="naive"), GRID.count)
    if run is not None:
        made.assume(run)
    return made


def monitored(
    pace: Pace,
    started: float,
    *,
    extra_seconds: float = 0.0,
    at_once: bool = False,
    is_cancelled: Callable[[], bool] = lambda: False,
    **callbacks: Any,
) -> Monitor:
    return Monitor(
        pace,
        OcclusionOptions(**callbacks),
        extra_seconds=extra_seconds,
        at_once=at_once,
        single=True,
        started=started,
        is_cancelled=is_cancelled,
    )


def compute(monitor: Monitor, clock: Clock, batches: list[tuple[int, float]]) -> None:
    """Compute so many places more in so many seconds, batch after batch."""
    heat_map, done = np.full(GRID.shape, np.nan, np.float32), 0
    for places, seconds in batches:
        heat_map.flat[done : done + places] = 0.5
        done += places
        clock.now += seconds
        monitor(heat_map[None].copy())


def test_an_estimate_has_the_start_and_the_verification_in_it_and_is_corrected(clock: Clock) -> None:
    told: list[float] = []
    started = clock.now
    clock.now += 0.5  # the network runs over the image
    monitor = monitored(pace(), started, extra_seconds=4.0, on_estimate=told.append)
    compute(monitor, clock, [(10, 0.6), (10, 0.8)])
    assert told == [pytest.approx(0.5 + 1.4 + 80 * 0.08 + 4)], "told before a batch that ends after two seconds"
    told.clear()
    clock.now = started
    monitor = monitored(pace(), started, on_estimate=told.append)
    compute(monitor, clock, [(10, 1.0)] * 4 + [(10, 3.0)] * 6)
    assert told[0] == pytest.approx(10)
    assert told[-1] == pytest.approx(22, rel=0.1)
    changes = np.abs(np.array(told[1:]) / np.array(told[:-1]) - 1)
    assert (changes > 0.1).all(), "an estimate is not told again unless it changes"


def test_a_slow_network_has_an_estimate_before_the_first_place(clock: Clock) -> None:
    told: list[float] = []
    monitored(pace(1.0), clock.now, on_estimate=told.append)
    assert told == [pytest.approx(100)]
    monitored(pace(0.01), clock.now, on_estimate=told.append)
    assert len(told) == 1, "a fast one is measured first"
    monitored(pace(0.01), clock.now, at_once=True, on_estimate=told.append)
    assert told[1:] == [pytest.approx(1)]


def test_a_short_map_has_an_estimate_as_well(clock: Clock) -> None:
    told: list[float] = []
    monitor = monitored(pace(), clock.now, on_estimate=told.append)
    compute(monitor, clock, [(60, 0.06), (40, 0.04)])
    assert told == [pytest.approx(0.1)]


@pytest.mark.parametrize("first", [8.0, 0.01])
def test_a_first_batch_of_another_pace_gives_no_estimate(first: float, clock: Clock) -> None:
    """It said 113 s for a heat map of 3.6 s: every estimate that is told is right within a factor of two."""
    told: list[float] = []
    monitor = monitored(pace(), clock.now, on_estimate=told.append)
    compute(monitor, clock, [(5, first)] + [(5, 0.5)] * 19)
    assert told
    total = first + 19 * 0.5
    assert all(total / 2 <= each <= total * 2 for each in told), told


def test_a_run_of_the_network_says_nothing_of_patches(clock: Clock) -> None:
    told: list[float] = []
    incremental = pace(1.0)
    incremental.is_in_full = False
    monitored(incremental, clock.now, on_estimate=told.append)
    assert told == []


def test_progress_counts_places_and_seconds(clock: Clock) -> None:
    told: list[Progress] = []
    seen: list[Any] = []
    monitor = monitored(pace(), clock.now, extra_seconds=1.0, on_progress=told.append, on_update=seen.append)
    compute(monitor, clock, [(20, 2.0), (30, 3.0), (50, 5.0)])
    assert [(each.done, each.total) for each in told] == [(20, 100), (50, 100), (100, 100)]
    assert [each.seconds for each in told] == pytest.approx([2, 5, 10])
    assert [each.seconds_left for each in told] == pytest.approx([9, 6, 1])
    assert np.isnan(told[0].heat_map).sum() == 80
    assert [np.isnan(heat_map).sum() for heat_map in seen] == [80, 50, 0]


def test_a_cancelled_request_ends_with_what_was_computed(clock: Clock) -> None:
    cancelled: list[bool] = []
    monitor = monitored(pace(), clock.now, is_cancelled=lambda: bool(cancelled))
    compute(monitor, clock, [(20, 2.0)])
    cancelled.append(True)
    with pytest.raises(ExplanationCancelledError, match="cancelled after 30 of 100 places") as raised:
        compute(monitor, clock, [(30, 3.0)])
    assert raised.value.heat_map is not None
    assert np.isnan(raised.value.heat_map).sum() == 70
