"""Greedy choices and elimination, against plain loops."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from optimizer.ensembles import Choice, Elimination, choose_greedily
from optimizer.errors import InvalidArgumentError


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("replace", [True, False])
def test_each_choice_is_the_best_next_one(seed: int, replace: bool) -> None:
    draw = np.random.default_rng(seed)
    truth, predicted = draw.normal(size=30), draw.normal(size=(6, 30))

    def error(chosen: tuple[int, ...]) -> float:
        return float(np.mean((predicted[list(chosen)].mean(axis=0) - truth) ** 2))

    choices = choose_greedily(error, range(6), 5, replace=replace, larger_is_better=False)
    assert len(choices) == 5
    for place, choice in enumerate(choices):
        before = tuple(each.candidate for each in choices[:place])
        errors = {number: error((*before, number)) for number in range(6) if replace or number not in before}
        assert choice == Choice(min(errors, key=errors.__getitem__), min(errors.values()))


def test_two_choices_are_the_best_pair_with_the_first_one() -> None:
    values = {pair: sum(pair) % 5 for pair in itertools.product(range(4), repeat=2)}

    def score(chosen: tuple[int, ...]) -> float:
        return float(chosen[0] == 2) if len(chosen) == 1 else float(values[chosen[0], chosen[1]])

    first, second = choose_greedily(score, range(4), 2)
    assert (first.candidate, second.candidate) == (2, 2), "2 + 2 is the largest below 5"


def test_equal_scores_take_the_first_candidate_and_numbers_beat_nan() -> None:
    assert choose_greedily(lambda _: 0.5, [3, 1], 1)[0].candidate == 3
    assert choose_greedily(lambda chosen: [math.nan, 0.1][chosen[0]], [0, 1], 1)[0].candidate == 1


def test_too_few_candidates_without_repeats() -> None:
    with pytest.raises(InvalidArgumentError, match=r"candidates must be at least 3 for 3 choices, got 2"):
        choose_greedily(lambda _: 0.0, [0, 1], 3, replace=False)


def test_candidates_that_are_worse_or_vary_more_are_eliminated() -> None:
    draw = np.random.default_rng(0)
    steady = 0.9 + draw.normal(size=(4, 10)) * 0.01
    low = steady[:1] - 0.1
    table = np.concatenate([steady, low, 0.905 + np.tile([-0.09, 0.09], 5)[None]])
    reasons = Elimination(errors=10.0).reasons({"accuracy": table}, {"accuracy": True})
    assert set(reasons) == {4, 5}
    assert reasons[4].startswith("accuracy 0.8")
    assert "varies by" in reasons[5]
    errors = Elimination(errors=10.0).reasons({"mse": -table}, {"mse": False})
    assert set(errors) == {4, 5}, "of an error, larger values are worse"


def test_any_metric_eliminates_and_undefined_blocks_do_not_count() -> None:
    good, bad = np.full((2, 4), 0.5), np.array([[0.5, 0.5, 0.5, 0.5], [0.4, 0.4, 0.4, np.nan]])
    both = {"accuracy": good, "auc": bad}
    assert set(Elimination().reasons(both, {"accuracy": True, "auc": True})) == {1}
    nothing = {"auc": np.full((2, 4), np.nan)}
    assert Elimination().reasons(nothing, {"auc": True}) == {}


@pytest.mark.parametrize(("settings", "name"), [({"errors": -1.0}, "errors"), ({"spread": 1.0}, "spread")])
def test_limits_that_are_not_allowed(settings: dict[str, float], name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{name} must be a number"):
        Elimination(**settings)
