"""Lists of repeated blocks: samples, mutations and grids against naive recursive ones."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import Any

import pytest

from optimizer.procedures import EpochResult, Sequential, Start
from optimizer.procedures.studies import OptunaSampler
from optimizer.space import Space, SpaceError, choice, integer, repeat, uniform

BLOCK = {"kind": choice({"conv": {"kernel": [3, 5]}, "dense": {}}), "width": [8, 16]}
LAYERS = Space({"lr": [0.1, 0.01], "layers": repeat(BLOCK, 1, 3)})


def rebuilt(params: dict[str, Any]) -> dict[str, Any]:
    values = LAYERS.values(params)
    return LAYERS.build(lambda dimension: values[dimension.path])


def test_a_grid_has_every_list_of_every_length_once() -> None:
    blocks = [
        {"kind": kind, **inner, "width": width}
        for kind, inner in [("conv", {"kernel": 3}), ("conv", {"kernel": 5}), ("dense", {})]
        for width in (8, 16)
    ]
    expected = [
        {"lr": lr, "layers": list(layers)}
        for lr in (0.1, 0.01)
        for length in (1, 2, 3)
        for layers in itertools.product(blocks, repeat=length)
    ]
    grid = LAYERS.grid()
    assert len(grid) == len(expected) == 2 * (6 + 36 + 216)
    assert sorted(map(json.dumps, grid)) == sorted(map(json.dumps, expected))


def test_samples_belong_to_the_space_and_reach_all_lengths() -> None:
    samples = [LAYERS.sample(3, number) for number in range(300)]
    for params in samples:
        LAYERS.check(params)
        assert rebuilt(params) == params
    lengths = Counter(len(params["layers"]) for params in samples)
    assert all(70 < lengths[length] < 130 for length in (1, 2, 3))


def test_a_mutation_adds_or_removes_the_last_block_or_changes_one_value() -> None:
    kinds: Counter[str] = Counter()
    for number in range(400):
        before = LAYERS.sample(1, number)
        after = LAYERS.mutate(before, 5, number)
        LAYERS.check(after)
        old, new = before["layers"], after["layers"]
        if len(old) != len(new):
            assert before["lr"] == after["lr"]
            assert abs(len(old) - len(new)) == 1
            assert all(left == right for left, right in zip(old, new, strict=False))
            kinds["longer" if len(new) > len(old) else "shorter"] += 1
            continue
        changed = [("lr", before["lr"])] if before["lr"] != after["lr"] else []
        for left, right in zip(old, new, strict=True):
            # The kernel comes and goes with the kind.
            common = [name for name in left if name in right and left[name] != right[name]]
            changed += [(name, left[name]) for name in common]
        assert len(changed) == 1
        kinds[changed[0][0]] += 1
    assert set(kinds) == {"longer", "shorter", "lr", "kind", "kernel", "width"}
    assert len(LAYERS.mutate({"lr": 0.1, "layers": [{"kind": "dense", "width": 8}] * 3}, 0, 2)["layers"]) <= 3


def test_a_new_dimension_or_a_longer_list_does_not_change_the_other_values() -> None:
    longer = Space({"lr": [0.1, 0.01], "layers": repeat({**BLOCK, "drop": uniform(0, 1)}, 1, 3)})
    for number in range(20):
        params = longer.sample(3, number)
        for block in params["layers"]:
            del block["drop"]
        assert params == LAYERS.sample(3, number)


def test_conditions_read_their_block_and_those_outside() -> None:
    space = Space(
        {
            "cells": repeat(
                {"kind": ["conv", "dense"], "drop": integer(1, 9, where={"kind": "dense"}),
                 "momentum": integer(1, 9, where={"optimizer": "sgd", "kind": "conv"})},
                2,
                4,
            ),
            "optimizer": ["sgd", "adam"],
        }
    )  # fmt: skip
    for number in range(100):
        params = space.sample(0, number)
        for cell in params["cells"]:
            assert ("drop" in cell) == (cell["kind"] == "dense")
            assert ("momentum" in cell) == (cell["kind"] == "conv" and params["optimizer"] == "sgd")


def test_blocks_nest_in_blocks_and_branches() -> None:
    stages = repeat({"cells": repeat({"width": [1, 2]}, 1, 2)}, 0, 2)
    space = Space({"net": choice({"deep": {"stages": stages}, "flat": {}})})
    assert len(space.grid()) == 1 + sum((2 + 4) ** stages for stages in range(3))
    assert Space.of(json.loads(json.dumps(space.document()))) == space
    for params in space.grid():
        space.check(params)


def test_optuna_suggests_lists() -> None:
    pytest.importorskip("optuna")
    search = Sequential(OptunaSampler(LAYERS, "tpe", seed=3), configurations=15, epochs=1, concurrency=1)
    decisions = search.ask()
    lengths = []
    while not search.done:
        (start,) = [decision for decision in decisions if isinstance(decision, Start)]
        LAYERS.check(start.params)
        lengths.append(len(start.params["layers"]))
        decisions = search.ask([EpochResult(start.trial_id, 1, {"loss": float(lengths[-1])})])
    assert set(lengths) == {1, 2, 3}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"lr": 0.1, "layers": 2}, "layers must be a list of blocks, got 2"),
        ({"lr": 0.1, "layers": []}, r"layers must be within its domain, 1 \.\. 3 blocks, got 0"),
        ({"lr": 0.1, "layers": [{"kind": "dense", "width": 8}] * 4}, r"1 \.\. 3 blocks, got 4"),
        ({"lr": 0.1, "layers": [{"kind": "dense"}]}, r"'layers\[0\]\.width' must be set"),
        ({"lr": 0.1, "layers": [{"kind": "dense", "width": 9}]}, r"layers\[0\]\.width must be within its domain"),
        ({"lr": 0.1, "layers": [{"kind": "dense", "width": 8, "kernel": 3}]}, r"'layers\[0\]\.kernel' must not be set"),
        ({"lr": 0.1}, "'layers' must be set: 1 .. 3 blocks"),
    ],
)
def test_other_lists_are_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        LAYERS.check(params)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({}, 1, 2), "block must be a mapping of names to domains, got {}"),
        ((["conv"], 1, 2), "block must be a mapping"),
        (({"a": [1]}, -1, 2), "low must be at least 0, got -1"),
        (({"a": [1]}, 3, 2), "high must be at least 3, got 2"),
        (({"a": [1]}, 0, 0), "high must be at least 1, got 0"),
        (({"a": [1]}, 1, 1001), "high must be at most 1000 blocks, got 1001"),
        (({"a": integer(1, 2, where=lambda _: True)}, 1, 2), "where of 'a' in a block must be a mapping"),
    ],
)
def test_other_blocks_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        repeat(*arguments)
