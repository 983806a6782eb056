"""Profiles: what is read between measurements, which batch is the best, and what is refused."""

from __future__ import annotations

import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from served import TABLE_3_2, profiles

from optimizer.errors import InvalidArgumentError
from optimizer.serving import Backend, BatchingProfile, InfeasibleError, ServingError, Session


def test_table_3_2() -> None:
    throughput = {name: [round(one.throughput(batch), 1) for batch in (4, 8, 16)] for name, one in TABLE_3_2.items()}
    assert throughput == {"A": [80.0, 106.7, 160.0], "B": [80.0, 88.9, 128.0], "C": [66.7, 84.2, 128.0]}
    assert Session("A", TABLE_3_2["A"], 200, 1).peak_rate == 160


def test_the_best_batch_is_not_the_largest_in_time() -> None:
    """A step of the hardware, as in the VGG16 file of Nexus: 54 serves more than 70."""
    profile = BatchingProfile({1: 10.0, 54: 54 / 0.2985, 55: 240.0, 70: 70 / 0.2845})
    assert profile.best_batch(250) == 54
    assert Session("v", profile, 500, 1).peak_rate == pytest.approx(298.5)


@given(profiles(), st.floats(1, 200), st.integers(1, 90))
def test_the_best_batch_against_all(profile: BatchingProfile, limit: float, room: int) -> None:
    fits = [b for b in range(1, profile.max_batch + 1) if profile.latencies[b] <= limit and profile.memory[b] <= room]
    best = profile.best_batch(limit, room)
    assert bool(best) == bool(fits)
    if fits:
        assert profile.throughput(best) == pytest.approx(max(map(profile.throughput, fits)))


@given(st.dictionaries(st.integers(2, 64), st.floats(0.01, 1000), max_size=12), st.floats(0.01, 1000))
def test_noise_is_made_monotone(measured: dict[int, float], first: float) -> None:
    profile = BatchingProfile({1: first, **measured})
    assert (np.diff(profile.latencies) >= -1e-9).all()
    # The nearest such sequence: it keeps the mean of the measurements.
    points = sorted({1: first, **measured})
    assert profile.latencies[points].mean() == pytest.approx(np.mean([first, *measured.values()]))


def test_what_rises_already_is_kept() -> None:
    profile = BatchingProfile({1: 3.0, 2: 3.0, 8: 9.0})
    assert profile.latencies.tolist() == [0, 3, 3, 4, 5, 6, 7, 8, 9]


def test_memory_is_never_understated() -> None:
    profile = BatchingProfile({1: 1.0, 8: 2.0}, memory_bytes={1: 100, 4: 300, 8: 200})
    assert profile.memory[1:].tolist() == [100, 167, 234, 300, 300, 300, 300, 300]


def test_a_speed() -> None:
    profile = BatchingProfile({1: 10.0, 4: 20.0}, {1: 1.0, 4: 3.0}, {1: 7}, 2.0, 4.0, "xeon", 2)
    fast = profile.at_speed(2)
    assert fast.latencies[4] == 10
    assert (fast.deviations[4], fast.preprocess_ms, fast.postprocess_ms) == (1.5, 1.0, 2.0)
    assert fast.memory[4] == 7


def test_a_profile_survives_json_and_pickle() -> None:
    profile = BatchingProfile({1: 10.0, 4: 20.0}, {1: 1.0}, {4: 12}, 2.0, 0.5, "xeon", 2)
    assert BatchingProfile.from_document(json.loads(json.dumps(profile.document()))) == profile
    copy = pickle.loads(pickle.dumps(profile))  # our own bytes
    assert copy == profile
    assert copy.latencies.tolist() == profile.latencies.tolist()


def test_another_machine_is_refused() -> None:
    profile = BatchingProfile({1: 10.0}, hardware="xeon", threads=2)
    profile.check_machine("xeon", 2)
    for hardware, threads in (("xeon", 1), ("epyc", 2)):
        with pytest.raises(ServingError, match="got one of 'xeon' with 2"):
            profile.check_machine(hardware, threads)
    BatchingProfile({1: 10.0}).check_machine("epyc", 8)


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ({}, "must contain batch size 1"),
        ({2: 5.0}, "must contain batch size 1, .* got 2"),
        ({1: math.nan}, r"got nan"),
        ({1: -1.0}, r"got -1.0"),
        ({1: 0.0}, "above 0"),
        ({1: math.inf}, "finite"),
        ({1: "5"}, r"got '5'"),
        ({1: True}, "finite"),
        ({1: 1.0, 0: 1.0}, "got 0"),
        ({1: 1.0, 2.5: 1.0}, "got 2.5"),
        ({1: 1.0, 1 << 20: 1.0}, "got 1048576"),
        (5, "a mapping of batch sizes"),
    ],
)
def test_impossible_latencies(points: Any, said: str) -> None:
    with pytest.raises(ServingError, match=said):
        BatchingProfile(points)


def test_other_impossible_profiles() -> None:
    with pytest.raises(ServingError, match=r"memory_bytes\[1\] must be .* got -5"):
        BatchingProfile({1: 1.0}, memory_bytes={1: -5})
    with pytest.raises(ServingError, match="deviation_ms must have batch sizes of at most 1"):
        BatchingProfile({1: 1.0}, {2: 1.0})
    with pytest.raises(InvalidArgumentError, match=r"preprocess_ms must be .*, got nan"):
        BatchingProfile({1: 1.0}, preprocess_ms=math.nan)
    with pytest.raises(InvalidArgumentError, match=r"threads must be .*, got 0"):
        BatchingProfile({1: 1.0}, threads=0)
    with pytest.raises(ServingError, match="batch must be from 1 to 2"):
        BatchingProfile({1: 1.0, 2: 2.0}).throughput(3)
    for document in ({}, {"latency_ms": 3}, {"latency_ms": {"one": 1.0}, "deviation_ms": {}, "memory_bytes": {}}):
        with pytest.raises(ServingError, match="document must be"):
            BatchingProfile.from_document(document)


@pytest.mark.parametrize(
    ("slo", "rate", "said"),
    [(wrong, 1, "slo_ms") for wrong in (0, -5, math.nan)] + [(50, wrong, "rate") for wrong in (0, -1, math.nan)],
)
def test_impossible_sessions(slo: float, rate: float, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        Session("s", BatchingProfile({1: 10.0}), slo, rate)


def test_a_deadline_under_two_batches_is_refused() -> None:
    profile = BatchingProfile({1: 10.0}, preprocess_ms=3, postprocess_ms=2)
    Session("s", profile, 25, 1)
    with pytest.raises(InfeasibleError, match=r"must be at least 25, twice .* and 5 ms .* got 24.9"):
        Session("s", profile, 24.9, 1)
    with pytest.raises(InvalidArgumentError, match="name must be a non-empty str"):
        Session("", profile, 25, 1)


def test_impossible_backends() -> None:
    with pytest.raises(InvalidArgumentError, match=r"speed must be .*, got 0"):
        Backend("b", speed=0)
    with pytest.raises(InvalidArgumentError, match=r"memory_bytes must be .*, got -1"):
        Backend("b", memory_bytes=-1)
