"""Narrowed spaces, importance of hyperparameters, and best values over time."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from optimizer.errors import InvalidArgumentError
from optimizer.steering import Configuration, Progress, best_so_far, importances, narrowed_space


def progress(tried: list[tuple[dict[str, Any], float]], mode: str = "min") -> Progress:
    """Make an experiment of configurations of one epoch, with their values of the metric."""
    names = [f"c{place:03}" for place in range(len(tried))]
    configurations = {
        name: Configuration(name, params, 1, history=[{"loss": value}])
        for name, (params, value) in zip(names, tried, strict=True)
    }
    return Progress(mode=mode, configurations=configurations)


def narrowed(values: list[Any], best: int, /, **entry: Any) -> dict[str, Any]:
    """Narrow the space of a hyperparameter whose values are sorted from the best to the worst."""
    tried = [({"a": value}, float(place)) for place, value in enumerate(values)]
    return narrowed_space(progress(tried), best, {"a": entry} if entry else None).search_space["a"]


def test_ranges_reach_half_the_way_to_the_next_tried_value() -> None:
    assert narrowed([0.5, 0.6, 0.9, 0.1], 2) == {"kind": "uniform", "low": 0.3, "high": 0.75}
    assert narrowed([1e-2, 1e-3, 1e-1, 1e-4], 2) == {"kind": "loguniform", "low": 0.000316228, "high": 0.0316228}
    assert narrowed([32, 64, 128, 16], 2) == {"kind": "int", "low": 24, "high": 96}


def test_ranges_stay_within_what_was_tried_or_within_the_space() -> None:
    assert narrowed([0.1, 0.3], 2) == {"kind": "uniform", "low": 0.1, "high": 0.3}
    assert narrowed([0.1, 0.3], 2, kind="uniform", low=0.0, high=0.3) == {"kind": "uniform", "low": 0.05, "high": 0.3}
    assert narrowed([4, 8], 1, kind="int", low=2, high=8, step=2) == {"kind": "int", "low": 3, "high": 6, "step": 2}


def test_the_kind_is_that_of_the_space() -> None:
    assert narrowed([0.1, 0.3, 0.9], 1, kind="loguniform", low=0.1, high=0.9)["high"] == 0.173205
    assert narrowed([64, 64, 32, 16], 3, kind="choice", values=[16, 32, 64]) == {"kind": "choice", "values": [64, 32]}


def test_equal_values_are_fixed() -> None:
    assert narrowed(["adam", "adam", "sgd"], 2) == {"kind": "fixed", "value": "adam"}
    assert narrowed([True, True, False], 2) == {"kind": "fixed", "value": True}
    assert narrowed([3, 3], 2) == {"kind": "fixed", "value": 3}
    assert narrowed([3], 1) == {"kind": "fixed", "value": 3}
    assert narrowed([0.5], 1) == {"kind": "fixed", "value": 0.5}
    assert narrowed([[64, 32], [64, 32]], 2) == {"kind": "fixed", "value": [64, 32]}


def test_extreme_numbers_keep_finite_ranges() -> None:
    small = narrowed([1e-300, 1e-310, 1e300], 1)
    assert 0 < small["low"] <= 1e-300 <= small["high"] < math.inf
    assert narrowed([0.0, 1.0, 100.0], 2)["kind"] == "uniform"


def test_the_scale_follows_from_the_values_that_were_tried() -> None:
    draw = random.Random(5)
    assert narrowed([draw.uniform(0.001, 0.5) for _ in range(40)], 9)["kind"] == "uniform"
    assert narrowed([10 ** draw.uniform(-5, -1) for _ in range(40)], 9)["kind"] == "loguniform"
    assert narrowed([0.1, 0.01], 2)["kind"] == "loguniform"
    assert narrowed([32, 64, 32, 16, 16, 64], 3) == {"kind": "choice", "values": [32, 64]}


def test_a_space_says_which_configurations_it_came_from() -> None:
    tried = [({"a": 1.0}, math.nan), ({"a": 2.0}, 0.9), ({"a": 3.0, "b": "x"}, 0.7)]
    lowest, highest = (narrowed_space(progress(tried, mode), best=1) for mode in ("min", "max"))
    assert (lowest.trials, highest.trials) == (("c002",), ("c001",))
    assert set(lowest.search_space) == {"a", "b"}
    assert lowest.reasons["a"] == "3 to 3 in the best, 1 to 3 in all"
    assert narrowed_space(Progress()).document() == {"trials": [], "search_space": {}, "reasons": {}}
    with pytest.raises(InvalidArgumentError, match="best must be a positive integer, got 0"):
        narrowed_space(Progress(), best=0)


def test_importance_is_epsilon_squared_of_the_kruskal_wallis_test() -> None:
    stats = pytest.importorskip("scipy.stats")
    draw = random.Random(7)
    tried = [({"act": "abc"[place % 3], "noise": "xy"[place % 2]}, place % 3 + draw.gauss(0, 1)) for place in range(60)]
    groups = [[value for params, value in tried if params["act"] == name] for name in "abc"]
    statistic, count = stats.kruskal(*groups).statistic, len(tried)
    expected = (statistic - len(groups) + 1) / (count - len(groups))
    assert importances(progress(tried))["act"] == pytest.approx(expected)


def test_importance_finds_the_hyperparameter_that_matters() -> None:
    draw = random.Random(3)
    tried = []
    for _ in range(80):
        params = {"lr": 10 ** draw.uniform(-5, -1), "units": draw.choice([16, 32, 64]), "dropout": draw.random()}
        # The best rate is in the middle, which no correlation would find, and some runs diverge.
        value = (math.log10(params["lr"]) + 3) ** 2 + 0.2 * draw.random()
        tried.append((params, 1e30 if params["lr"] > 0.05 else value))
    found = importances(progress(tried))
    assert next(iter(found)) == "lr"
    assert found["lr"] is not None and found["lr"] > 0.7
    assert all(found[name] is not None and found[name] < 0.1 for name in ("units", "dropout"))


def test_importance_needs_values_that_differ() -> None:
    alone = [({"a": 1, "b": place, "c": f"only {place}"}, float(place)) for place in range(6)]
    assert {name: value is None for name, value in importances(progress(alone)).items()} == {
        "b": False, "a": True, "c": True,
    }  # fmt: skip
    assert importances(progress([({"a": place % 2}, float(place)) for place in range(3)])) == {"a": None}
    assert importances(progress([({"a": place % 2}, 1.0) for place in range(8)])) == {"a": None}
    assert importances(Progress()) == {}


def test_the_best_value_follows_the_order_of_epochs() -> None:
    first = Configuration("c000", {}, 2, history=[{"loss": 0.7}, {"loss": 0.2}], cursors=[1, 4], ended={0: 3.0, 1: 9.0})
    second = Configuration("c001", {}, 2, history=[{"loss": 0.9}, {"loss": math.nan}], cursors=[2, 5], ended={0: 5.0})
    steps = best_so_far(Progress(configurations={"c000": first, "c001": second}))
    assert [(step["epochs"], step["seconds"], step["value"], step["trial"]) for step in steps] == [
        (1, 3.0, 0.7, "c000"), (3, 9.0, 0.2, "c000"), (4, 9.0, 0.2, "c000"),
    ]  # fmt: skip
    steps = best_so_far(Progress(mode="max", configurations={"c000": first, "c001": second}))
    assert [(step["epochs"], step["value"]) for step in steps] == [(1, 0.7), (2, 0.9), (4, 0.9)]
    assert best_so_far(Progress()) == []


def test_units_tell_when_an_epoch_ended() -> None:
    followed = Progress()
    start = {"decision": "start", "trial": "c000", "params": {}, "epochs": 1, "source": None, "reason": ""}
    followed.fold("orders", {"results": [], "decisions": [start]}, 1)
    followed.fold(
        "units", [{"trial_id": "c000", "epoch": 0, "seconds": 1.0, "ended": ended} for ended in (4.0, 2.0)], 2
    )
    epoch = {"result": "epoch", "trial": "c000", "epoch": 1, "metrics": {"loss": 0.5}}
    followed.fold("orders", {"results": [epoch], "decisions": []}, 3)
    assert best_so_far(followed) == [{"epochs": 1, "seconds": 4.0, "value": 0.5, "trial": "c000"}]
