"""Equation 5.1 and its cost, against drawn inputs and against Tables 5.3 and 5.4."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.errors import InvalidArgumentError
from optimizer.specialization import (
    CompactProfile,
    Confusion,
    ConfusionCurve,
    Policy,
    cascaded_accuracy,
    cascaded_seconds,
    corrected_skew,
)

CONFUSION, SKEW, ORACLE = Confusion(0.8, 0.12, 0.9), 0.7, 0.75


@pytest.fixture(scope="module")
def inputs() -> dict[str, np.ndarray]:
    """Return which of 200,000 drawn inputs are dominant, answered rightly, called "other", and known to the oracle."""
    random = np.random.default_rng(0)
    inside, draws = random.random(200_000) < SKEW, random.random(200_000)
    other = np.where(inside, (draws >= 0.8) & (draws < 0.92), draws < 0.9)
    return {
        "inside": inside,
        "right": inside & (draws < 0.8),
        "other": other,
        "oracle": random.random(200_000) < ORACLE,
    }


def test_accuracy_is_that_of_drawn_inputs(inputs: dict[str, np.ndarray]) -> None:
    right = inputs["right"] | (inputs["other"] & inputs["oracle"])
    assert cascaded_accuracy(SKEW, CONFUSION, ORACLE) == pytest.approx(right.mean(), abs=0.004)


def test_cost_is_that_of_drawn_inputs(inputs: dict[str, np.ndarray]) -> None:
    seconds = 0.01 + 0.2 * inputs["other"]
    assert cascaded_seconds(SKEW, CONFUSION, 0.01, 0.2) == pytest.approx(seconds.mean(), abs=0.001)


def test_skew_is_corrected_for_false_answers(inputs: dict[str, np.ndarray]) -> None:
    answered = float((~inputs["other"]).mean())
    assert corrected_skew(answered, CONFUSION) == pytest.approx(SKEW, abs=0.005)
    assert abs(answered - SKEW) > 0.03  # the share alone is biased


def test_skew_of_models_that_answer_all_or_nothing_is_0() -> None:
    assert corrected_skew(1.0, Confusion(0.5, 0.0, 0.0)) == 0
    assert corrected_skew(0.0, Confusion(0.0, 1.0, 1.0)) == 0
    assert corrected_skew(0.01, Confusion(0.9, 0.05, 0.9)) == 0
    assert corrected_skew(1.0, Confusion(0.9, 0.05, 0.9)) == 1


def test_skew_is_corrected_for_the_errors_of_the_oracle(inputs: dict[str, np.ndarray]) -> None:
    curve = ConfusionCurve((1,), (CONFUSION,))
    policy = Policy(classes=10_000, accuracy=ORACLE, seconds=1, compacts=[CompactProfile("c", 0.1, curve)])
    share = float((inputs["inside"] & inputs["oracle"]).mean())  # errors of the oracle lie outside
    assert policy.skew(share) == pytest.approx(SKEW, abs=0.005)
    assert policy.skew(1.0) == 1


def test_expected_agreement_is_that_of_drawn_inputs(inputs: dict[str, np.ndarray]) -> None:
    policy = Policy(
        classes=100, accuracy=ORACLE, seconds=1, compacts=[CompactProfile("c", 0.1, ConfusionCurve((1,), (CONFUSION,)))]
    )
    agree = (inputs["right"] & inputs["oracle"])[~inputs["other"]].mean()
    assert policy.agreement(0, 1, SKEW) == pytest.approx(agree, abs=0.005)


# Tables 5.3 and 5.4 on the CPU: R = 2576 ms and r = 40.4 ms; special rate, cascade rate, and the latency by
# (1 - s) R + s (r + c R), which is 1 to 9 % below the printed ones.
@pytest.mark.parametrize(
    ("special", "cascade", "latency"),
    [(0.880, 0.075, 515), (0.959, 0.034, 228), (0.937, 0.048, 316), (0.920, 0.103, 487), (0.801, 0.180, 916)],
)
def test_cost_is_the_formula_for_the_rates_of_tables_53_and_54(special: float, cascade: float, latency: float) -> None:
    always = cascaded_seconds(0.0, Confusion(1, 0, cascade), 40.4, 2576)
    assert (1 - special) * 2576 + special * always == pytest.approx(latency, abs=1)


def test_curves_are_interpolated_and_constant_outside() -> None:
    curve = ConfusionCurve([5, 10], [(0.9, 0.04, 0.96), (0.8, 0.08, 0.92)])  # type: ignore[list-item]
    assert curve.at(7) == pytest.approx((0.86, 0.056, 0.944))
    assert curve.at(1) == curve.at(5)
    assert curve.at(99) == curve.at(10)


@pytest.mark.parametrize(
    ("sizes", "shares", "message"),
    [
        ((), (), "classes must be"),
        ((5, 5), (CONFUSION, CONFUSION), "classes must be"),
        ((0,), (CONFUSION,), "classes must be"),
        ((5,), (CONFUSION, CONFUSION), "confusions must have"),
        ((5,), (Confusion(1.2, 0, 1),), "confusions must have"),
    ],
)
def test_invalid_curves_are_refused(sizes: tuple[int, ...], shares: tuple[Confusion, ...], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        ConfusionCurve(sizes, shares)
