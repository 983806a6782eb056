"""Comparisons of an ablation, against scipy and drawn scores whose effects are known."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.ablation import (
    BETTER,
    FAILED,
    NOT_DISTINGUISHABLE,
    WORSE,
    compare,
    design,
    holm,
    paired_interval,
    student_p_value,
    student_quantile,
)

stats = pytest.importorskip("scipy.stats")

COLUMNS = ["age", "hours", "gain", "noise"]


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 30])
def test_the_distribution_is_that_of_scipy(freedom: int) -> None:
    for t in (0.0, 0.3, 1.0, 2.5, 12.0):
        assert student_p_value(-t, freedom) == pytest.approx(2 * stats.t.sf(t, freedom), abs=1e-12)
    for p_value in (0.5, 0.05, 1e-4):
        assert student_quantile(p_value, freedom) == pytest.approx(stats.t.isf(p_value / 2, freedom))


def test_a_paired_interval_is_that_of_scipy() -> None:
    first, second = np.random.default_rng(0).normal(size=(2, 6))
    expected = stats.ttest_rel(first, second)
    interval, p_value = paired_interval(list(first - second), 0.1)
    low, high = expected.confidence_interval(0.9)
    assert (interval.low, interval.high) == pytest.approx((low, high))
    assert p_value == pytest.approx(expected.pvalue)


def test_intervals_contain_zero_where_holm_does_not_reject() -> None:
    random = np.random.default_rng(1)
    for _ in range(200):
        samples = random.normal(size=(5, 4)) + random.choice([0.0, 1.0, 3.0], size=(5, 1))
        p_values = [float(stats.ttest_1samp(sample, 0).pvalue) for sample in samples]
        # The definition: the k-th smallest p-value times (m - k + 1), made monotone.
        order = np.argsort(p_values)
        adjusted = np.minimum(1, np.maximum.accumulate(np.array(p_values)[order] * np.arange(5, 0, -1)))
        for (p_value, level), place in zip([holm(p_values, 0.05)[each] for each in order], range(5), strict=True):
            assert p_value == pytest.approx(adjusted[place])
            interval, _ = paired_interval(list(samples[order[place]]), level)
            assert interval.contains_zero == (adjusted[place] > 0.05)


def scores(**effects: float) -> dict[str, dict[int, float]]:
    """Draw scores of six repeats; the repeats differ much, and the pairs little."""
    random = np.random.default_rng(2)
    full = 0.8 + random.normal(scale=0.1, size=6)
    drawn = {name: full - effect + random.normal(scale=0.002, size=6) for name, effect in effects.items()}
    return {name: dict(enumerate(values.tolist())) for name, values in ({"full": full} | drawn).items()}


def test_parts_are_ranked_by_disjoint_intervals_alone() -> None:
    variants = design(features=COLUMNS, columns=COLUMNS, controls=False)
    drawn = scores(age=0.2, hours=0.05, gain=0.05, noise=0.0)
    effects = compare(drawn, variants, larger_is_better=True).effects
    assert {effect.variant.name: (effect.rank, effect.verdict) for effect in effects} == {
        "age": (1, WORSE),
        "hours": (2, WORSE),
        "gain": (2, WORSE),
        "noise": (0, NOT_DISTINGUISHABLE),
    }
    assert effects[0].variant.name == "age"
    assert effects[0].interval.mean == pytest.approx(0.2, abs=0.005)


def test_a_smaller_loss_is_better() -> None:
    variants = design(features=["age", "hours"], columns=COLUMNS, controls=False)
    effects = compare(scores(age=-0.2, hours=0.1), variants, larger_is_better=False).effects
    assert {effect.variant.name: effect.verdict for effect in effects} == {"age": WORSE, "hours": BETTER}


def test_a_repeat_without_a_score_drops_its_pair() -> None:
    variants = design(features=["age", "hours"], columns=COLUMNS, controls=False)
    drawn = scores(age=0.2, hours=0.1)
    drawn["age"] = {0: drawn["age"][0], 1: float("nan")}
    drawn["full"].pop(5)
    failed, other = sorted(compare(drawn, variants, larger_is_better=True).effects, key=lambda each: each.pairs)
    assert (failed.verdict, failed.pairs, failed.rank) == (FAILED, 1, 0)
    assert (other.verdict, other.pairs) == (WORSE, 5)


def test_a_part_is_compared_with_its_control() -> None:
    variants = design(features=["age", "hours"], columns=COLUMNS)
    drawn = scores(age=0.2, hours=0.05, **{"1 random feature": 0.05})
    effects = {effect.variant.name: effect for effect in compare(drawn, variants, larger_is_better=True).effects}
    assert effects["age"].beyond_control is not None
    assert effects["hours"].beyond_control is not None
    assert effects["age"].beyond_control.low > 0.1
    assert effects["hours"].beyond_control.contains_zero
    assert effects["1 random feature"].rank == 0


def test_a_removal_without_an_effect_is_marked() -> None:
    variants = design(params=["dropout"], columns=COLUMNS)
    drawn = scores()
    drawn["dropout"] = dict(drawn["full"])
    comparison = compare(drawn, variants, larger_is_better=True)
    assert comparison.effects[0].is_identical
    assert comparison.effects[0].verdict == NOT_DISTINGUISHABLE
    assert "all scores equal" in "\n".join(comparison.explain("accuracy"))


def test_noise_is_rarely_distinguishable() -> None:
    """The family-wise error rate is the confidence's: at 0.9, about one in ten comparisons has a wrong verdict."""
    random = np.random.default_rng(3)
    variants = design(features=COLUMNS, columns=COLUMNS, controls=False)
    wrong = 0
    for _ in range(400):
        drawn = {variant.name: dict(enumerate(random.normal(size=5).tolist())) for variant in variants}
        effects = compare(drawn, variants, larger_is_better=True, confidence=0.9).effects
        wrong += any(effect.verdict != NOT_DISTINGUISHABLE for effect in effects)
    assert wrong / 400 < 0.13
