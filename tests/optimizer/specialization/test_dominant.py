"""Appendix C: Table C.1, its probabilities by drawing windows, and the choice of window and support."""

from __future__ import annotations

import math

import numpy as np
import pytest

from optimizer.errors import InvalidArgumentError
from optimizer.specialization import choose_window, detection, dominant_classes, least_support

# N, a*, n, p, w, k, p_in, p_out. Row 8 is printed as .00929; equation C.2 gives .00995.
TABLE = [
    (1000, 0.68, 5, 0.9, 30, 2, 0.896, 6.52e-5),
    (1000, 0.68, 10, 0.9, 30, 2, 0.558, 6.53e-5),
    (1000, 0.68, 10, 0.9, 60, 2, 0.891, 2.64e-4),
    (1000, 0.68, 10, 0.7, 60, 2, 0.789, 4.80e-4),
    (1000, 0.68, 10, 0.7, 90, 2, 0.933, 1.08e-3),
    (205, 0.58, 10, 0.9, 90, 2, 0.959, 0.019),
    (205, 0.58, 10, 0.9, 90, 3, 0.872, 1.31e-3),
    (205, 0.58, 0, 0.0, 90, 3, math.nan, 9.95e-3),
]


@pytest.mark.parametrize(("classes", "accuracy", "dominant", "skew", "window", "support", "within", "other"), TABLE)
def test_table_c1(
    classes: int, accuracy: float, dominant: int, skew: float, window: int, support: int, within: float, other: float
) -> None:
    probabilities = detection(
        classes=classes, accuracy=accuracy, dominant=dominant, skew=skew, window=window, support=support
    )
    assert probabilities.dominant == pytest.approx(within, abs=0.0025, nan_ok=True)
    assert probabilities.other == pytest.approx(other, rel=0.025)


def test_row_8_is_not_the_printed_one() -> None:
    row = detection(classes=205, accuracy=0.58, dominant=0, skew=0.0, window=90, support=3)
    assert round(row.other, 5) == 0.00995


def test_probabilities_are_those_of_drawn_windows() -> None:
    random, size = np.random.default_rng(0), (20_000, 12)
    truths = np.where(random.random(size) < 0.7, random.integers(3, size=size), random.integers(3, 8, size=size))
    wrong = (truths + random.integers(1, 8, size=size)) % 8
    answers = np.where(random.random(size) < 0.6, truths, wrong)
    probabilities = detection(classes=8, accuracy=0.6, dominant=3, skew=0.7, window=12, support=3)
    assert probabilities.dominant == pytest.approx(((answers == 0).sum(1) >= 3).mean(), abs=0.01)
    assert probabilities.other == pytest.approx(((answers == 7).sum(1) >= 3).mean(), abs=0.01)


def test_dominant_classes_need_the_support() -> None:
    assert dominant_classes([4, 4, 1, 2, 1, 1], 2) == {1, 4}
    assert dominant_classes([], 2) == frozenset()


@pytest.mark.parametrize(("classes", "accuracy"), [(2622, 0.958), (1000, 0.689), (205, 0.581), (2, 0.9)])
def test_the_smallest_sufficient_window_and_support_are_chosen(classes: int, accuracy: float) -> None:
    n = min(5, classes - 1)

    def passes(window: int, support: int) -> tuple[bool, bool]:
        each = detection(classes=classes, accuracy=accuracy, dominant=n, skew=0.8, window=window, support=support)
        return each.other * (classes - n) <= 0.5, each.dominant >= 0.9

    chosen = choose_window(classes=classes, accuracy=accuracy)
    support = least_support(classes, accuracy, chosen)
    assert passes(chosen, support) == (True, True)
    assert support == 2 or not passes(chosen, support - 1)[0]
    for window in range(10, chosen, 10):
        assert not passes(window, least_support(classes, accuracy, window))[1]


def test_less_accurate_oracles_need_larger_windows() -> None:
    windows = [choose_window(classes=205, accuracy=accuracy) for accuracy in (0.95, 0.7, 0.5)]
    assert windows == sorted(windows)
    assert windows[0] < windows[-1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dominant": 20}, "dominant must be below"),
        ({"skew": 1.5}, "skew must be"),
        ({"classes": 1}, "classes must be"),
    ],
)
def test_numbers_out_of_range_are_refused(change: dict[str, float], message: str) -> None:
    arguments = {"classes": 10, "accuracy": 0.9, "dominant": 2, "skew": 0.8, "window": 30, "support": 2}
    with pytest.raises(InvalidArgumentError, match=message):
        detection(**(arguments | change))  # type: ignore[arg-type]
