"""Profiles and sessions for tests of serving."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

from optimizer.serving import BatchingProfile, Session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Table 3.2, with a batch of 1 on the line through the first two rows.
TABLE_3_2 = {
    "A": BatchingProfile({1: 31.25, 4: 50, 8: 75, 16: 100}),
    "B": BatchingProfile({1: 20, 4: 50, 8: 90, 16: 125}),
    "C": BatchingProfile({1: 33.75, 4: 60, 8: 95, 16: 125}),
}


@st.composite
def profiles(draw: st.DrawFn, largest: int = 12) -> BatchingProfile:
    """Draw a profile whose latency rises, in steps of any size; throughput may fall."""
    batches = sorted(draw(st.sets(st.integers(2, largest), min_size=1, max_size=4)))
    latency = draw(st.integers(1, 20))
    points = {1: float(latency)}
    for batch in batches:
        latency += draw(st.integers(0, 25))
        points[batch] = float(latency)
    memory = {1: draw(st.integers(1, 50)), batches[-1]: draw(st.integers(50, 80))}
    return BatchingProfile(points, memory_bytes=memory)


@st.composite
def session_lists(draw: st.DrawFn, most: int = 5) -> list[Session]:
    """Draw sessions, slow ones and busy ones among them."""
    sessions = []
    for number in range(draw(st.integers(1, most))):
        profile = draw(profiles())
        slo = 2 * float(profile.latencies[1]) + draw(st.integers(0, 200))
        rate = draw(st.sampled_from([0.3, 2.0, 11.0, 37.0, 90.0, 260.0]))
        sessions.append(Session(f"s{number}", profile, slo, rate))
    return sessions


def drawn_sessions(seed: int, count: int, least_rate: float, most_rate: float) -> list[Session]:
    """Draw sessions of many shapes."""
    rng = np.random.default_rng(seed)
    sessions = []
    for number in range(count):
        fixed, per_item = rng.uniform(2, 20), rng.uniform(0.3, 6)
        profile = BatchingProfile.from_line(per_item, fixed, 64)
        slo = max(2.2 * (fixed + per_item), rng.uniform(50, 400))
        sessions.append(Session(f"s{number}", profile, float(slo), float(rng.uniform(least_rate, most_rate))))
    return sessions


def three_partition(seed: int, triples: int, bound: int = 100) -> list[Session]:
    """Make an instance of appendix A that needs exactly ``triples`` backends, and fills them to the last millisecond.

    A session of fixed latency, once a cycle whatever its length, is a model that takes ``2 B + a`` at every batch and
    has the budget ``9 B + a``. It is so slow that a cycle never has two of its requests.
    """
    rng = np.random.default_rng(seed)
    sessions = []
    for triple in range(triples):
        while True:
            first, second = rng.integers(bound // 4 + 1, bound // 2, 2).tolist()
            third = bound - first - second
            if bound / 4 < third < bound / 2:
                break
        for part in (first, second, third):
            latency = float(2 * bound + part)
            name = f"s{len(sessions)}-{triple}"
            sessions.append(Session(name, BatchingProfile({1: latency}), 9.0 * bound + part, 0.01))
    order = rng.permutation(len(sessions)).tolist()
    return [sessions[place] for place in order]


def partitions(items: Sequence[int]) -> Iterator[list[list[int]]]:
    """Give all partitions of a few items."""
    if not items:
        yield []
        return
    first, *rest = items
    for size in range(len(rest) + 1):
        for others in itertools.combinations(rest, size):
            left = [item for item in rest if item not in others]
            for partition in partitions(left):
                yield [[first, *others], *partition]
