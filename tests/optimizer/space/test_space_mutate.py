"""Configurations made of others: they stay in the space, and change what they say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spaces import LR_BATCH_NET, few, spaces

from optimizer.space import Space, SpaceError, choice, integer, log_integer, log_uniform, uniform

numbers = st.integers(0, 1000)


@few
@given(spaces(), numbers, st.sampled_from([0.0, 0.25, 1.0]))
def test_what_is_perturbed_stays_in_the_space(space: Space, number: int, resample: float) -> None:
    params = space.sample(0, 0)
    for generation in range(5):
        after = space.perturb(params, 1, number + generation, resample=resample)
        space.check(after)
        params = after


@few
@given(spaces(), numbers)
def test_a_mutation_changes_one_live_dimension(space: Space, number: int) -> None:
    params = space.sample(0, number)
    before = space.values(params)
    if all(dimension.count == 1 for dimension in space.dimensions if dimension.path in before):
        with pytest.raises(SpaceError, match="params must have a live dimension with a second value"):
            space.mutate(params, 1, number)
        return
    mutated = space.mutate(params, 1, number)
    after = space.values(mutated)
    # By their text, for False is not 0.
    assert len([path for path in before.keys() & after.keys() if repr(before[path]) != repr(after[path])]) == 1
    conditional = {dimension.path for dimension in space.dimensions if dimension.condition or dimension.parent}
    assert before.keys() ^ after.keys() <= conditional


@few
@given(spaces(), numbers)
def test_changes_are_a_function_of_seed_and_number(space: Space, number: int) -> None:
    params = space.sample(0, 0)
    assert space.perturb(params, 1, number) == space.perturb(dict(params), 1, number)
    assert space.perturb(params, 1, number, only=[]) == params


def test_numbers_are_multiplied_within_their_bounds() -> None:
    space = Space({"lr": log_uniform(1e-3, 1e-1), "drop": uniform(-1, 1)})
    changed = [space.perturb({"lr": 0.01, "drop": -0.5}, 0, number, resample=0) for number in range(50)]
    assert {params["lr"] for params in changed} == {0.01 * 0.8, 0.01 * 1.2}
    assert {params["drop"] for params in changed} == {-0.4, -0.6}
    assert {params["lr"] for params in changed if params["drop"] == -0.4} == {0.01 * 0.8, 0.01 * 1.2}
    at_bounds = [space.perturb({"lr": 0.09, "drop": -0.9}, 0, number, resample=0) for number in range(50)]
    assert {params["lr"] for params in at_bounds} == {0.09 * 0.8, 0.1}
    assert {params["drop"] for params in at_bounds} == {-0.9 * 0.8, -1.0}


@pytest.mark.parametrize(
    ("domain", "value", "neighbours"),
    [
        (integer(1, 8), 3, {2, 4}),
        (integer(1, 8), 1, {1, 2}),
        (integer(-4, 4), 0, {-1, 1}),
        (integer(-4, 4), -2, {-1, -3}),
        (integer(0, 1000), 100, {80, 120}),
        (integer(16, 256, 16), 32, {16, 48}),
        (integer(16, 250, 16), 240, {192, 240}),
        (log_integer(1, 256), 2, {1, 3}),
        (log_integer(32, 256), 100, {80, 120}),
        (uniform(0, 1, step=0.1), 0.3, {0.2, 0.4}),
        (uniform(0, 1, step=0.1), 0.0, {0.0, 0.1}),
        (choice([128, 32, 64]), 64, {32, 128}),
        (choice([128, 32, 64]), 128, {64, 128}),
        (choice([0.5, 1, 2]), 1, {0.5, 2}),
        (choice(["a", "b", "c"]), "b", {"b"}),
        (choice([True, False]), True, {True}),
        (choice([1, 2, None]), 1, {1}),
    ],
    ids=str,
)
def test_steps_and_numbers_of_a_choice_move_to_a_neighbour(domain: Any, value: Any, neighbours: set[Any]) -> None:
    space = Space({"x": domain})
    assert {space.perturb({"x": value}, 0, number, resample=0)["x"] for number in range(30)} == neighbours


@pytest.mark.parametrize(("factor", "after"), [(0.8, (-1, 2, -1)), (1.2, (-3, 4, 1))])
def test_the_smallest_move_is_in_the_direction_of_the_factor(factor: float, after: tuple[int, int, int]) -> None:
    space = Space(dict.fromkeys(("below", "above", "zero"), integer(-4, 4)))
    params = {"below": -2, "above": 3, "zero": 0}
    assert tuple(space.perturb(params, 0, 0, resample=0, factors=[factor]).values()) == after


def test_a_quarter_is_drawn_anew() -> None:
    space = Space({"x": uniform(0.25, 4), "y": uniform(0.25, 4)})
    changed = [space.perturb({"x": 1.0, "y": 1.0}, 0, number) for number in range(2000)]
    anew = {name: [params[name] not in {0.8, 1.2} for params in changed] for name in "xy"}
    assert all(0.22 < sum(flags) / 2000 < 0.28 for flags in anew.values())
    both = sum(x and y for x, y in zip(anew["x"], anew["y"], strict=True)) / 2000
    assert 0.04 < both < 0.085  # 1 / 16: each dimension by itself


def test_what_comes_to_life_is_drawn_and_what_dies_is_dropped() -> None:
    params = {"lr": 0.1, "batch": 32, "net": "cnn", "channels": 16}
    changed = [LR_BATCH_NET.resample(params, "net", 0, number) for number in range(60)]
    assert {frozenset(after) for after in changed} == {
        frozenset({"lr", "batch", "net", "channels"}),
        frozenset({"lr", "batch", "net", "units"}),
    }
    assert all((after["lr"], after["batch"]) == (0.1, 32) for after in changed)
    assert all(after["channels"] == 16 for after in changed if after["net"] == "cnn")
    assert len({after["units"] for after in changed if after["net"] == "lstm"}) > 10


def test_a_name_that_branches_share_is_not_carried_over() -> None:
    space = Space({"net": choice({"a": {"width": integer(1, 10)}, "b": {"width": integer(100, 200)}})})
    changed = [space.mutate({"net": "a", "width": 5}, 0, number) for number in range(50)]
    assert all(after["width"] >= 100 for after in changed if after["net"] == "b")
    assert any(after["net"] == "b" for after in changed)


def test_only_some_are_perturbed() -> None:
    space = Space({"lr": uniform(0, 1), "net": {"width": integer(1, 100), "depth": integer(1, 100)}})
    params = {"lr": 0.5, "net": {"width": 50, "depth": 50}}
    changed = [space.perturb(params, 0, number, only=["lr", "net.depth"]) for number in range(20)]
    assert all(after["net"]["width"] == 50 for after in changed)
    assert all(after["lr"] != 0.5 and after["net"]["depth"] != 50 for after in changed[:1])
    assert params == {"lr": 0.5, "net": {"width": 50, "depth": 50}}


def test_every_live_dimension_is_mutated_as_often() -> None:
    params = {"lr": 0.1, "batch": 32, "net": "cnn", "channels": 16}
    changed = [LR_BATCH_NET.mutate(params, 0, number) for number in range(1000)]
    for name in ("lr", "batch", "net"):
        assert 190 < sum(after[name] != params[name] for after in changed) < 310


def test_the_condition_of_the_space_holds_after_a_change() -> None:
    space = Space({"a": integer(0, 9), "b": integer(0, 9)}, where=lambda params: params["a"] < params["b"])
    for number in range(100):
        assert space.perturb({"a": 4, "b": 5}, 0, number)["a"] < space.perturb({"a": 4, "b": 5}, 0, number)["b"]
        after = space.mutate({"a": 4, "b": 5}, 0, number)
        assert after["a"] < after["b"]


GOOD = {"lr": 0.1, "batch": 32, "net": "cnn", "channels": 16}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resample": 1.5}, r"resample must be a probability from 0 to 1, got 1\.5"),
        ({"resample": "often"}, "resample must be a number, got 'often'"),
        ({"factors": ()}, r"factors must be one or more numbers above 0, got \["),
        ({"factors": (0.8, -1.2)}, r"factors must be one or more numbers above 0, got \["),
        ({"factors": (0.8, float("inf"))}, "factors must be finite, since it is written as JSON, got inf"),
        ({"only": ["lrr"]}, "only must be names of dimensions, lr, batch, net, channels, units, got 'lrr';"),
        ({"params": GOOD | {"lr": 1}}, r"lr must be within its domain, log_uniform 1e-05 \.\. 0\.1, got 1"),
        ({"seed": 0.5}, r"seed must be an integer, got 0\.5"),
        ({"number": -1}, "number must be at least 0, got -1"),
    ],
)
def test_a_perturbation_that_is_none(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        LR_BATCH_NET.perturb(**{"params": GOOD, "seed": 0, "number": 0, **options})


def test_a_mutation_or_resampling_that_is_none() -> None:
    with pytest.raises(SpaceError, match=r"name must be a live dimension of \{'lr': 0\.1, 'batch': 32, 'net': 'cnn',"):
        LR_BATCH_NET.resample(GOOD, "units", 0, 0)
    with pytest.raises(SpaceError, match="resample must be names of dimensions, lr, batch, net, channels, units, got"):
        LR_BATCH_NET.resample(GOOD, "unit", 0, 0)
    with pytest.raises(SpaceError, match="params must have a live dimension with a second value"):
        Space({"a": [1], "b": 2}).mutate({"a": 1, "b": 2}, 0, 0)
