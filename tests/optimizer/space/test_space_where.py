"""Conditions, and configurations that belong or do not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spaces import LR_BATCH_NET, few, spaces

from optimizer.space import Space, SpaceError, choice, integer, uniform

SGD = Space(
    {
        "momentum": uniform(0, 1, where={"optim.name": ["sgd", "nag"]}),  # declared before what it reads
        "optim": {"name": choice(["sgd", "nag", "adam"]), "nesterov": choice([True, False], where={"momentum": 0.0})},
        "beta": uniform(0, 1, where={"optim.name": "adam", "flag": True}),
        "flag": [True, False],
    }
)


def test_a_condition_may_name_a_value_a_list_and_several() -> None:
    for number in range(100):
        params = SGD.sample(0, number)
        name = params["optim"]["name"]
        assert ("momentum" in params) == (name != "adam")
        assert ("beta" in params) == (name == "adam" and params["flag"])
        assert ("nesterov" in params["optim"]) == (params.get("momentum") == 0.0)


def test_a_condition_on_what_is_not_live_does_not_hold() -> None:
    space = Space({"a": [1, 2], "b": choice([1, 2], where={"a": 1}), "c": choice([1, 2], where={"b": [1, 2]})})
    assert [set(params) for params in space.grid()].count({"a"}) == 1
    assert all(("c" in params) == (params["a"] == 1) for params in space.grid())


def test_true_is_not_1() -> None:
    space = Space({"a": [True, 1], "b": choice(["x"], where={"a": 1})})
    assert space.grid() == [{"a": True}, {"a": 1, "b": "x"}]


def test_a_function_sees_what_was_declared_before() -> None:
    seen = []

    def wide(params: dict[str, Any]) -> bool:
        seen.append(dict(params))
        params.clear()  # the argument is a copy, so changes of it have no effect
        return seen[-1]["width"] > 5

    space = Space({"width": integer(1, 10), "drop": uniform(0, 1, where=wide), "after": [1]})
    drawn = [space.sample(0, number) for number in range(50)]
    assert all(("drop" in params) == (params["width"] > 5) for params in drawn)
    assert all(params["after"] == 1 for params in drawn)
    assert all(set(params) == {"width"} for params in seen)


def test_a_function_that_fails_is_told_with_what_it_was_given() -> None:
    space = Space({"a": [1], "b": uniform(0, 1, where=lambda params: params["c"] > 0), "c": [1]})
    with pytest.raises(SpaceError, match=r"where of b must not fail, got KeyError: 'c', for \{'a': 1\}, which has no"):
        space.sample(0, 0)


@pytest.mark.parametrize(
    ("search_space", "message"),
    [
        ({"a": uniform(0, 1, where={"optimiser": 1}), "optimizer": [1]}, "did you mean 'optimizer'"),
        (
            {"a": uniform(0, 1, where={"n": 1}), "n": {"m": [1]}},
            r"where of a must have names of dimensions, a, n\.m, got 'n'",
        ),
        (
            {"a": uniform(0, 1, where={"b": "sdg"}), "b": ["sgd"]},
            "where of a must have values of b, choice 'sgd', got 'sdg'",
        ),
        (
            {"a": uniform(0, 1, where={"b": [1, 9]}), "b": integer(0, 5)},
            r"where of a must have values of b, integer 0 \.\. 5, got 9",
        ),
        ({"a": uniform(0, 1, where={"a": 0.5})}, "where must not depend on its own dimension, got the circle a -> a"),
        (
            {"a": uniform(0, 1, where={"c": 1}), "b": choice([1], where={"a": 0.5}), "c": choice([1], where={"b": 1})},
            "where must not depend on its own dimension, got the circle a -> c -> b -> a",
        ),
        (
            {"a": choice({"p": {"x": [1]}, "q": {}}, where={"x": 1})},
            r"where must not depend on its own dimension, got the circle a -> a\[p\]\.x -> a",
        ),
        (
            {"a": uniform(0, 1, where={"b": 1}), "b": choice([1], where=lambda params: "a" in params)},
            "where must not depend on its own dimension, got the circle a -> b -> a",
        ),
    ],
)
def test_a_condition_that_nothing_can_answer(search_space: dict[str, Any], message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        Space(search_space)


@pytest.mark.parametrize("where", [{}, "sgd", 5, {1: 2}, {"a": []}, {"a": [[1]]}, {"a": float("nan")}, {"a": object()}])
def test_a_where_that_is_no_condition(where: Any) -> None:
    with pytest.raises(SpaceError, match="where"):
        uniform(0, 1, where=where)


def test_the_condition_of_a_space_is_a_function() -> None:
    with pytest.raises(
        SpaceError, match=r"where of a whole space must be a function of a configuration, got \{'a': 1\}:"
    ):
        Space({"a": [1]}, where={"a": 1})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lr": 1.0}, r"lr must be within its domain, log_uniform 1e-05 \.\. 0\.1, got 1\.0"),
        ({"lr": "0.1"}, r"lr must be within its domain, log_uniform 1e-05 \.\. 0\.1, got '0\.1'"),
        ({"lr": float("nan")}, "lr must be finite, since it is written as JSON, got nan"),
        ({"batch": 64}, "batch must be within its domain, choice 32, 128, got 64"),
        ({"batch": True}, "batch must be within its domain, choice 32, 128, got True"),
        ({"batch": [32]}, r"batch must be a string, number, boolean or None, got \[32\] of type list\."),
        ({"net": "mlp"}, "net must be within its domain, choice 'cnn', 'lstm', got 'mlp'"),
        ({"net": "lstm"}, r"'channels' must not be set, since it is not live: net\[cnn\]\.channels is choice"),
        ({"units": 64}, r"'units' must not be set, since it is not live: net\[lstm\]\.units is log_integer"),
        ({"channel": 1}, "names must be dimensions of the space, lr, batch, net, channels, units, got"),
    ],
)
def test_a_configuration_outside_the_space(change: dict[str, Any], message: str) -> None:
    params = {"lr": 0.1, "batch": 32, "net": "cnn", "channels": 16}
    LR_BATCH_NET.check(params)
    with pytest.raises(SpaceError, match=message):
        LR_BATCH_NET.check(params | change)


def test_a_configuration_that_lacks_a_value() -> None:
    with pytest.raises(SpaceError, match="'batch' must be set: choice 32, 128"):
        LR_BATCH_NET.check({"lr": 0.1, "net": "cnn", "channels": 16})
    with pytest.raises(SpaceError, match=r"'units' must be set: log_integer 32 \.\. 256 where net = 'lstm'"):
        LR_BATCH_NET.check({"lr": 0.1, "batch": 32, "net": "lstm"})


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"optim": {"name": "adam"}, "flag": False, "momentum": 0.5},
            r"'momentum' must not be set, since it is not live: momentum is uniform 0\.0 \.\.",
        ),
        (
            {"optim": {"name": "sgd"}, "flag": False},
            r"'momentum' must be set: uniform 0\.0 \.\. 1\.0 where optim\.name in 'sgd', 'nag'",
        ),
        ({"optim": "sgd", "flag": False}, "optim must be a mapping, got 'sgd'"),
        ({"flag": False}, "'optim' must be set to a mapping of name, nesterov"),
        (
            {"optim": {"name": "adam", "nam": 1}, "flag": False},
            r"names must be dimensions of the space, momentum, optim\.name, optim\.nesterov,",
        ),
        ([], r"a configuration must be a mapping, got \[\]"),
    ],
)
def test_a_nested_configuration_outside_the_space(params: Any, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        SGD.check(params)


def test_a_number_that_was_computed_is_on_its_step() -> None:
    space = Space({"x": uniform(0, 1, step=0.1), "n": integer(0, 10, 5), "c": 2})
    space.check({"x": 3 * 0.1, "n": 5, "c": 2})
    space.check({"x": 1, "n": 0, "c": 2.0})
    for wrong in ({"x": 0.31}, {"n": 6}, {"n": 5.0}, {"c": 3}):
        with pytest.raises(SpaceError, match="must be within its domain"):
            space.check({"x": 0.3, "n": 5, "c": 2} | wrong)


def test_the_condition_of_the_space_is_checked() -> None:
    space = Space({"a": [1, 2]}, where=lambda params: params["a"] == 1)
    space.check({"a": 1})
    with pytest.raises(SpaceError, match=r"a configuration must satisfy the space's where=, got \{'a': 2\}"):
        space.check({"a": 2})


@few
@given(spaces(), st.integers(0, 100))
def test_a_configuration_is_built_from_its_values(space: Space, number: int) -> None:
    params = space.sample(0, number)
    values = space.values(params)
    asked: list[str] = []
    assert space.build(lambda dimension: (asked.append(dimension.path), values[dimension.path])[1]) == params
    assert sorted(asked) == sorted(values)


def test_a_value_that_is_built_is_checked() -> None:
    with pytest.raises(SpaceError, match=r"lr must be within its domain, log_uniform 1e-05 \.\. 0\.1, got 5"):
        LR_BATCH_NET.build(lambda _: 5)
