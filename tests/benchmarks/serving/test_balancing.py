"""Balancing policies of the simulator, against their definitions."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from benchmarks.serving.simulation import TwoChoices, WeightedRandom, balancer
from optimizer.errors import InvalidArgumentError


def test_weighted_random_has_the_shares() -> None:
    chosen = Counter(map(WeightedRandom([5, 3, 2], np.random.default_rng(0).random).choose, [0.0] * 20_000))
    assert [round(chosen[place] / 20_000, 1) for place in range(3)] == [0.5, 0.3, 0.2]
    assert WeightedRandom([1, 1], lambda: 1.0).choose(0.0) == 1


def test_two_choices_reads_lengths_that_are_old() -> None:
    lengths, asked = [5, 1], []

    def ask(place: int) -> int:
        asked.append(place)
        return lengths[place]

    draws = iter([0.1, 0.9] * 4)
    two = TwoChoices([1, 1], lambda: next(draws), ask, cached_ms=10)
    assert two.choose(0.0) == 1
    lengths[:] = [1, 5]
    assert two.choose(10.0) == 1
    assert asked == [0, 1]
    assert two.choose(10.1) == 0
    assert asked == [0, 1, 0, 1]


def test_a_queue_is_short_for_its_rate() -> None:
    draws = iter([0.1, 0.9])
    assert TwoChoices([4, 1], lambda: next(draws), [6, 2].__getitem__).choose(0.0) == 0


def test_what_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"balancing must be .*, got 'round'"):
        balancer("round", [1], lambda: 0.5, lambda _: 0)
    with pytest.raises(InvalidArgumentError, match=r"weights.* must be .*, got 0"):
        balancer("deficit", [1, 0], lambda: 0.5, lambda _: 0)
    with pytest.raises(InvalidArgumentError, match="weights"):
        balancer("weighted", [], lambda: 0.5, lambda _: 0)
    with pytest.raises(InvalidArgumentError, match="cached_ms"):
        balancer("two choices", [1], lambda: 0.5, lambda _: 0, math.nan)
