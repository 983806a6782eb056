"""Tests by betting and binomial tests, against scipy and simulation."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimizer.cascades import fewest_rows, log_evidence, outcomes, reaches_target, reaches_target_on_all

stats = pytest.importorskip("scipy.stats")


@pytest.mark.parametrize(("losses", "gains", "target"), [(0, 148, 0.98), (0, 149, 0.98), (3, 200, 0.95), (40, 60, 0.5)])
def test_a_fixed_sample_is_tested_as_scipy_tests_it(losses: int, gains: int, target: float) -> None:
    p_value = stats.binomtest(losses, losses + gains, 1 - target, alternative="less").pvalue
    assert reaches_target_on_all(losses, gains, target, 0.05) == (p_value <= 0.05)


def test_capital_is_fair_at_the_boundary() -> None:
    # The mean of the capital over all samples of 30 rows is 1 if the error rate is exactly 1 - target.
    losses = np.arange(31)
    weights = stats.binom.pmf(losses, 30, 0.1)
    assert weights @ np.exp(log_evidence(losses, 30 - losses, 0.9)) == pytest.approx(1.0)


def test_optional_stopping_rarely_errs() -> None:
    draw = np.random.default_rng(0)
    passed = 0
    for _ in range(2000):
        results = np.where(draw.uniform(size=400) < 0.1, 1, -1).astype(np.int8)
        passed += reaches_target(results, 0.9, 0.05)  # whenever within 400 rows
    assert 0 < passed / 2000 <= 0.05


def test_a_loss_lowers_the_capital_and_the_fewest_rows_are_enough() -> None:
    least = fewest_rows(0.95, 0.05)
    gains = np.full(least, -1, np.int8)
    assert reaches_target(gains, 0.95, 0.05)
    assert not reaches_target(gains[1:], 0.95, 0.05)
    assert not reaches_target(np.where(np.arange(least) == 0, 1, gains).astype(np.int8), 0.95, 0.05)


@pytest.mark.parametrize("metric", ["accuracy", "precision", "recall"])
def test_outcomes_have_the_sign_of_the_metric(metric: str) -> None:
    draw = np.random.default_rng(3)
    for target in (0.6, 0.8, 0.9):
        covered, oracle = draw.uniform(size=500) < 0.5, draw.integers(2, size=500)
        answers = draw.integers(2, size=500) if metric == "accuracy" else np.full(500, int(metric == "precision"))
        final = np.where(covered, answers, oracle)
        right = {
            "accuracy": np.mean(final == oracle),
            "precision": np.mean(oracle[final == 1] == 1),
            "recall": np.mean(final[oracle == 1] == 1),
        }[metric]
        results = outcomes(metric, covered, answers, oracle, 1)
        excess = target * (results > 0).sum() - (1 - target) * (results < 0).sum()
        assert (excess <= 0) == (right >= target)


def bargain() -> Any:
    """Load the bounds of the package bargain without the package itself, which imports a client of a web service."""
    spec = importlib.util.find_spec("BARGAIN")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("pip install --no-deps bargain==0.1.3")
    file = Path(spec.submodule_search_locations[0], "bounds", "betting_bounds.py")
    module_spec = importlib.util.spec_from_file_location("bargain_bounds", file)
    assert module_spec is not None
    assert module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(module)
    return module


def test_bets_conclude_where_those_of_bargain_do() -> None:
    bounds = bargain()
    draw = np.random.default_rng(1)
    ours, theirs = [], []
    for error in (0.02, 0.05, 0.08, 0.1):
        for _ in range(25):
            right = draw.uniform(size=300) >= error
            ours.append(reaches_target(np.where(right, -1, 1).astype(np.int8), 0.9, 0.05))
            # It returns False where the mean is shown to be above the target.
            theirs.append(not bounds.test_if_true_mean_is_above_m(right.astype(float), 0.9, 0.05))
    assert np.mean(np.array(ours) == np.array(theirs)) >= 0.9
    assert abs(np.mean(ours) - np.mean(theirs)) <= 0.05
    assert np.mean(ours[75:]) <= 0.1
