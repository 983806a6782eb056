"""Combinations of transformations, Pareto fronts, and the refusal of wrong values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from optimizer.approximate import CostCard
from optimizer.errors import InvalidArgumentError
from optimizer.variants import (
    MEASURES,
    Coarsen,
    Factorize,
    Measurement,
    Narrow,
    Quantize,
    Resize,
    Shorten,
    Tuning,
    pareto_front,
    plan_recipes,
    wilson_interval,
)

FULL = Measurement("full", 0.9, 100, 0.8, 0.95, 400, 900, 2.0, 0.1, {1: 0.04, 16: 0.32}, 224)


def test_the_issues_catalog_has_all_combinations_up_to_the_depth() -> None:
    apply = [Factorize(), Quantize(8), Narrow(0.5), Resize(160, 96)]
    names = [recipe.name for recipe in plan_recipes(apply, depth=3)]
    assert len(names) == len(set(names)) == (1 + 3) * (1 + 1) * (1 + 1) * (1 + 2)
    assert names[0] == "full"
    assert "96px-width0.5-rank0.125-8bit" in names
    shallow = list(plan_recipes(apply, depth=1))
    assert max(len(recipe.trained.steps) for recipe in shallow) == 1
    assert len(shallow) == 2 * (1 + 3 + 1 + 2), "bits are free"


def test_variants_that_differ_in_bits_share_their_training() -> None:
    recipes = plan_recipes([Quantize(), Shorten(1)])
    assert [recipe.trained.name for recipe in recipes] == ["full"] * 3 + ["short1"] * 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Factorize(1.0), "keep must be below 1, got 1.0"),
        (lambda: Narrow(0), "widths must be"),
        (lambda: Quantize(4), "bits must be 16 or 8, got 4"),
        (lambda: Quantize(32), "Without Quantize weights have 32"),
        (Resize, "at least one strength"),
        (lambda: Resize(96, 96), "each once"),
        (lambda: Coarsen(1), "factors must be"),
        (lambda: plan_recipes(["narrow"]), "list of transformations such as"),  # type: ignore[list-item]
        (lambda: plan_recipes([Narrow(0.5), Narrow(0.7)]), "narrow several times"),
        (lambda: plan_recipes([Resize(*range(32, 132))]), "at most 68 variants"),
        (lambda: Tuning(distillation=1.5), "distillation must be"),
        (lambda: Tuning(learning_rate=0), "learning_rate must be"),
        (lambda: pareto_front([FULL], "memori"), "did you mean 'memory'"),
        (lambda: replace(FULL, run_seconds={}), "run_seconds must be a non-empty mapping"),
        (lambda: replace(FULL, accuracy=1.2), "accuracy must be"),
    ],
)
def test_wrong_values_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make()


@pytest.mark.parametrize("measure", MEASURES)
def test_the_front_is_what_brute_force_finds(measure: str) -> None:
    draw = np.random.default_rng(0)
    entries = [
        replace(
            FULL,
            name=str(number),
            accuracy=round(float(draw.uniform(0.5, 0.9)), 1),
            resident_bytes=int(draw.integers(1, 9)),
            stored_bytes=int(draw.integers(1, 9)),
            gflop=float(draw.integers(1, 9)),
            load_seconds=float(draw.integers(1, 9)),
            run_seconds={1: float(draw.integers(1, 9))},
        )
        for number in range(40)
    ]
    cost = MEASURES[measure]

    def beaten(entry: Measurement) -> bool:
        mine = getattr(entry, cost), -entry.accuracy
        return any(
            (theirs := (getattr(other, cost), -other.accuracy)) != mine
            and theirs[0] <= mine[0]
            and theirs[1] <= mine[1]
            for other in entries
        )

    front = pareto_front(entries, measure)
    assert {(getattr(entry, cost), entry.accuracy) for entry in front} == {
        (getattr(entry, cost), entry.accuracy) for entry in entries if not beaten(entry)
    }
    assert len({(getattr(entry, cost), entry.accuracy) for entry in front}) == len(front)


def test_a_measurement_is_priced_by_the_cost_card() -> None:
    priced = FULL.variant(CostCard(joules_per_gflop=3, joules_per_mb_loaded=1000), sent_bytes=1000)
    assert (priced.run_joules, priced.accuracy, priced.memory_bytes) == (6.0, 0.9, 900)
    assert priced.load_joules == pytest.approx(0.9)
    assert priced.cloud_dollars is not None


def test_wilsons_interval() -> None:
    assert wilson_interval(0, 0) == (0.0, 1.0)
    low, high = wilson_interval(0, 10)
    assert low == pytest.approx(0, abs=1e-12)
    assert high == pytest.approx(0.2775, abs=1e-4)  # z^2 / (n + z^2)
