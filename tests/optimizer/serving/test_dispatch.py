"""Dispatch policies and round robin, against their definitions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.errors import InvalidArgumentError
from optimizer.serving import POLICIES, DeficitRoundRobin, deferred, earliest_first, maximal_window, sliding_window

queues = st.lists(st.integers(0, 40).map(float), max_size=12).map(sorted)
tables = st.lists(st.integers(0, 8), min_size=1, max_size=8).map(
    lambda steps: [0.0, *(5.0 + sum(steps[: place + 1]) for place in range(len(steps)))]
)
batches = st.integers(1, 10)


def windows(deadlines: list[float], latencies: list[float]) -> list[tuple[int, int]]:
    """List the windows that are in time at 0, as (start, size)."""
    return [
        (start, size)
        for start in range(len(deadlines))
        for size in range(1, min(len(deadlines) - start, len(latencies) - 1) + 1)
        if latencies[size] <= deadlines[start]
    ]


@given(queues, tables)
def test_earliest_first(deadlines: list[float], latencies: list[float]) -> None:
    fits = windows(deadlines, latencies)
    drop, take, _ = earliest_first(deadlines, 0.0, latencies, 1)
    if not fits:
        assert (drop, take) == (len(deadlines), 0)
    else:
        first = min(start for start, _ in fits)
        assert (drop, take) == (first, max(size for start, size in fits if start == first))


@given(queues, tables, batches)
def test_sliding_window(deadlines: list[float], latencies: list[float], batch: int) -> None:
    """The first start whose window, cut at the queue's end, is in time."""
    full = min(batch, len(latencies) - 1)
    starts = [
        start for start in range(len(deadlines)) if latencies[min(full, len(deadlines) - start)] <= deadlines[start]
    ]
    drop, take, _ = sliding_window(deadlines, 0.0, latencies, batch)
    if not starts:
        assert (drop, take) == (len(deadlines), 0)
    else:
        assert (drop, take) == (starts[0], min(full, len(deadlines) - starts[0]))


@given(queues, tables)
@settings(max_examples=300)
def test_maximal_window(deadlines: list[float], latencies: list[float]) -> None:
    fits = windows(deadlines, latencies)
    drop, take, _ = maximal_window(deadlines, 0.0, latencies, 1)
    if not fits:
        assert (drop, take) == (len(deadlines), 0)
    else:
        largest = max(size for _, size in fits)
        assert (drop, take) == (min(start for start, size in fits if size == largest), largest)


@given(queues, tables, batches)
def test_deferred(deadlines: list[float], latencies: list[float], batch: int) -> None:
    """It waits only while one more request would be in time, and runs what the sliding window runs."""
    drop, take, wait = deferred(deadlines, 0.0, latencies, batch)
    eager = sliding_window(deadlines, 0.0, latencies, batch)
    assert drop == eager.drop
    if wait is None:
        assert take == eager.take
    else:
        assert take == 0 < eager.take < batch
        assert wait == deadlines[drop] - latencies[eager.take + 1] > 0
        then = deferred(deadlines, wait, latencies, batch)
        assert (then.drop, then.take) == (drop, eager.take)


@given(queues, tables, batches, st.sampled_from(sorted(POLICIES)), st.floats(0, 30))
def test_nothing_runs_late(deadlines: list[float], latencies: list[float], batch: int, policy: str, now: float) -> None:
    drop, take, wait = POLICIES[policy](deadlines, now, latencies, batch)
    assert 0 <= drop <= drop + take <= len(deadlines)
    assert take < len(latencies)
    if take:
        assert now + latencies[take] <= deadlines[drop] + 1e-5
    # A request that could be answered is never left without an answer and without a time to ask again.
    if not take and wait is None:
        assert drop == len(deadlines)


def test_an_empty_queue() -> None:
    for policy in POLICIES.values():
        assert policy([], 3.0, [0, 1, 2], 2) == (0, 0, None)


def test_deficit_round_robin_keeps_the_shares_at_all_times() -> None:
    weights = [5.0, 3.0, 2.0]
    turns = DeficitRoundRobin(weights)
    counts = [0, 0, 0]
    for number in range(1, 2000):
        counts[turns.choose(0.0)] += 1
        assert all(abs(count - number * weight / 10) <= 1 for count, weight in zip(counts, weights, strict=True))


def test_weights_are_checked() -> None:
    with pytest.raises(InvalidArgumentError, match="weights"):
        DeficitRoundRobin([1, 0])
    with pytest.raises(InvalidArgumentError, match="at least one number"):
        DeficitRoundRobin([])
