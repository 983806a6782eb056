"""Variants of an ablation and their configurations."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.ablation import configurations, design
from optimizer.errors import InvalidArgumentError

COLUMNS = ["age", "hours", "gain", "loss"]


def test_parts_and_controls_are_listed() -> None:
    variants = design(
        features={"capital": ("gain", "loss"), "age": "age"}, modules=["block"], params=["dropout"], columns=COLUMNS
    )
    assert [(variant.name, variant.kind, variant.removed, variant.control) for variant in variants] == [
        ("full", "full", (), ""),
        ("capital", "features", ("gain", "loss"), "2 random features"),
        ("age", "features", ("age",), "1 random feature"),
        ("block", "modules", ("block",), "random parameters, as many as block"),
        ("dropout", "params", ("dropout",), ""),
        ("2 random features", "random features", (), ""),
        ("1 random feature", "random features", (), ""),
        ("random parameters, as many as block", "random parameters", ("block",), ""),
    ]


def test_controls_draw_anew_in_each_repeat() -> None:
    variants = design(features=["age"], modules=["block"], columns=COLUMNS)
    listed = configurations(variants, {"lr": 0.1}, repeats=20, columns=COLUMNS, seed=0)
    columns = [params["_removed"]["features"] for params in listed if params["variant"] == "1 random feature"]
    assert len(columns) == 20
    assert {name for drawn in columns for name in drawn} == set(COLUMNS)
    random = [params["_removed"] for params in listed if params["variant"].startswith("random parameters")]
    assert len({removed["seed"] for removed in random}) == 20
    assert all(removed["parameters_of"] == ["block"] for removed in random)
    assert listed == configurations(variants, {"lr": 0.1}, repeats=20, columns=COLUMNS, seed=0)
    assert listed != configurations(variants, {"lr": 0.1}, repeats=20, columns=COLUMNS, seed=1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "features, modules or params must name a part to remove, got none"),
        ({"features": ["agee"]}, "got 'agee'; did you mean 'age'"),
        ({"features": {"all": COLUMNS}}, "features must leave at least one feature column, got 'all' with all 4"),
        ({"features": "age"}, "features must be a sequence or a mapping"),
        ({"features": [3]}, "features must be names"),
        ({"features": {"none": []}}, "features must be names"),
        ({"features": {"age": ["age", "age"]}}, "features must name each member of 'age' once"),
        ({"features": ["age", "age"]}, "features must have different parts"),
        ({"features": ["age"], "modules": ["age"]}, "must have different names, none 'full', got 'age'"),
        ({"modules": {"full": ["block"]}}, "none 'full', got 'full'"),
    ],
)
def test_wrong_parts_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError) as raised:
        design(**settings, columns=COLUMNS)
    assert message in str(raised.value)
