"""Spaces of functions that ask for their hyperparameters: every sample asks for exactly the values that it has."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.space import HyperParameters, Space, SpaceError, choice, discover_space, integer, log_integer, uniform


def network(hp: Any) -> None:
    kind = hp.Choice("kind", ["mlp", "cnn"])
    with hp.conditional_scope("kind", ["mlp"]):
        if kind == "mlp":
            hp.Int("units", 32, 512, step=32)
    with hp.conditional_scope("kind", ["cnn"]):
        if kind == "cnn":
            for block in range(hp.Int("blocks", 1, 3)):
                with hp.name_scope(f"block{block}"):
                    if hp.Boolean("norm"):
                        hp.Float("momentum", 0.8, 0.99)
                    hp.Int("filters", 8, 64, step=2, sampling="log")
    hp.Float("lr", 1e-4, 1e-1, sampling="log")
    hp.Fixed("seed", 7)


def test_every_sample_and_mutation_asks_for_exactly_its_values() -> None:
    space = discover_space(network)
    seen = set()
    for number in range(200):
        params = space.sample(0, number)
        for each in (params, space.mutate(params, 1, number)):
            hp = HyperParameters(each)
            network(hp)
            assert hp.values == each
            assert {name for name, asked in hp.asked.items() if asked.active} == set(each)
            seen.add(frozenset(each))
    # One kind of MLP; of CNNs of one to three blocks, 2 + 4 + 8 by their norms.
    assert len(seen) == 1 + 14


def test_domains_are_those_of_the_calls() -> None:
    def build(hp: Any) -> None:
        hp.Int("step", 4, 12, step=4)
        hp.Int("log", 1, 100, sampling="log")
        hp.Float("share", 0.0, 0.5, step=0.25)
        hp.Choice("one", ["same"])
        hp.Int("set", 3, 3)

    expected = {"step": integer(4, 12, 4), "log": log_integer(1, 100), "share": uniform(0, 0.5, 0.25)}
    assert discover_space(build) == Space({**expected, "one": choice(["same"]), "set": choice([3])})


def test_conditions_without_scopes_are_those_that_the_calls_show() -> None:
    def build(hp: Any) -> None:
        if hp.Int("layers", 0, 4) >= 2:
            hp.Choice("skip", ["add", "concat"])
        if hp.Choice("optimizer", ["adam", "sgd"]) != "adam":
            hp.Float("momentum", 0, 0.9)
        hp.Boolean("late", parent_name="optimizer", parent_values=["adam"])

    space = discover_space(build)
    assert space == Space(
        {
            "layers": integer(0, 4),
            "optimizer": choice(["adam", "sgd"]),
            "late": choice([False, True], where={"optimizer": "adam"}),
            "skip": choice(["add", "concat"], where={"layers": [2, 3, 4]}),
            "momentum": uniform(0, 0.9, where={"optimizer": "sgd"}),
        }
    )


def test_values_for_which_the_function_fails_are_no_conditions() -> None:
    def build(hp: Any) -> None:
        if hp.Choice("kernel", [3, 5, 7]) == 7:
            raise ValueError("larger than the picture")
        hp.Boolean("norm")

    assert discover_space(build) == Space({"kernel": [3, 5, 7], "norm": [False, True]})


def test_inactive_hyperparameters_are_none_and_unknown_ones_have_their_defaults() -> None:
    hp = HyperParameters({"kind": "cnn"})
    assert hp.Choice("kind", ["mlp", "cnn"]) == "cnn"
    with hp.conditional_scope("kind", "mlp"):
        assert hp.Int("units", 1, 2) is None
    assert hp.Int("layers", 1, 3, default=2) == 2
    assert hp.get("layers") == hp["layers"] == 2
    assert "units" not in hp
    assert "layers" in hp


def fails(hp: Any) -> None:
    hp.Boolean("norm")
    raise ValueError("no such layer")


def renamed(hp: Any) -> None:
    hp.Int("units", 1, 2 + hp.Boolean("wide"))


def long_range(hp: Any) -> None:
    if hp.Int("layers", 1, 100) > 50:
        hp.Boolean("skip")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda _: None, "build must ask for a hyperparameter"),
        (fails, "build must not fail with the defaults, {'norm': False}, got ValueError: no such layer"),
        (renamed, "hyperparameters of the same name must have the same values, got 'units' of integer 1 .. 2 and"),
        (long_range, "'layers' must have at most 64 values, because others depend on it, got integer 1 .. 100"),
        (lambda hp: hp.Int("a", 1, 2, sampling="reverse_log"), "sampling of 'a' must be 'linear' or 'log'"),
        (lambda hp: hp.Boolean("a.b"), "name of a dimension must be a string without dots"),
    ],
)
def test_other_functions_are_refused(build: Any, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        discover_space(build)
