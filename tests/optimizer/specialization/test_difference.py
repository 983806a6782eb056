"""Threshold of a difference detector: against a search over all thresholds, and its guarantee in simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from optimizer.errors import InvalidArgumentError
from optimizer.specialization import choose_threshold


def lower_bound(losses: int, count: int, delta: float) -> float:
    """Clopper and Pearson's lower bound of the share without a loss, by bisection of the binomial distribution."""
    low, high = 0.0, 1.0
    for _ in range(60):
        share = (low + high) / 2
        below = sum(math.comb(count, k) * (1 - share) ** k * share ** (count - k) for k in range(losses + 1))
        low, high = (share, high) if below <= delta else (low, share)
    return low


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_largest_threshold_whose_bound_reaches_the_target(seed: int) -> None:
    rng = np.random.default_rng(seed)
    errors = rng.integers(0, 20, 120).astype(float)  # several frames for each threshold
    agrees = rng.random(120) > errors / 60
    passing = [
        threshold
        for threshold in np.unique(errors)
        if lower_bound(int((~agrees & (errors <= threshold)).sum()), 120, 0.1) >= 0.85
    ]
    assert choose_threshold(errors, agrees, 0.85, 0.1) == max(passing)


def test_agreement_is_below_the_target_in_few_samples() -> None:
    rng = np.random.default_rng(1)
    target, delta, misses = 0.9, 0.1, 0
    for _ in range(400):
        errors = rng.random(200)
        threshold = choose_threshold(errors, rng.random(200) >= errors, target, delta)
        # A frame with error e is wrong with probability e: up to threshold h the expected share is h^2 / 2.
        misses += threshold is not None and 1 - threshold**2 / 2 < target
    assert misses <= 400 * delta + 3 * math.sqrt(400 * delta * (1 - delta))
    assert misses > 0  # a bound that is never missed is too wide


def test_no_threshold_passes() -> None:
    assert choose_threshold(np.zeros(20), np.ones(20, bool), 0.98) is None  # too few frames
    assert choose_threshold(np.zeros(500), np.zeros(500, bool), 0.98) is None
    assert choose_threshold(np.zeros(0), np.zeros(0, bool), 0.5) is None


def test_all_frames_repeat() -> None:
    assert choose_threshold(np.array([3.0, 1.0] * 200), np.ones(400, bool), 0.98) == 3.0


@pytest.mark.parametrize(
    ("errors", "agrees", "target"),
    [([1.0], [True, False], 0.9), ([math.nan], [True], 0.9), ([1.0], [True], 1.0)],
)
def test_wrong_arguments_are_refused(errors: list[float], agrees: list[bool], target: float) -> None:
    with pytest.raises(InvalidArgumentError, match="must"):
        choose_threshold(np.array(errors), np.array(agrees), target)
