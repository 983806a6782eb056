"""Plans: what is forced stays, what is chosen is the cheapest, and building pays from the rows that it says."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from optimizer.compiling import (
    INPUT,
    STRATEGIES,
    Arithmetic,
    Builder,
    Costs,
    Output,
    Plan,
    Program,
    Trees,
    UnsupportedOperatorError,
    make_plan,
    shape_of,
)


def perfect_trees(count: int, depth: int) -> Trees:
    nodes = 2 ** (depth + 1) - 1
    inner = np.arange(nodes) < 2**depth - 1
    own = np.arange(nodes)
    left, right = np.where(inner, 2 * own + 1, -1), np.where(inner, 2 * own + 2, -1)
    starts = np.arange(count)[:, None] * nodes
    return Trees.of_nodes(
        feature=np.zeros(count * nodes),
        threshold=np.zeros(count * nodes, np.float32),
        left=np.where(left < 0, -1, left + starts).reshape(-1),
        right=np.where(right < 0, -1, right + starts).reshape(-1),
        missing_left=np.zeros(count * nodes, np.bool_),
        value=np.zeros((count * nodes, 1)),
        root=starts[:, 0],
        target=np.zeros(count),
        base=[0.0],
        divisor=1.0,
        features=1,
        missing=False,
    )


def program(count: int, depth: int) -> Program:
    build = Builder(1)
    return build.program({"predict": Output(build.add(perfect_trees(count, depth), INPUT))})


def numbers() -> Program:
    build = Builder(1)
    return build.program({"transform": Output(build.add(Arithmetic("add", np.ones(1)), INPUT))})


def test_a_shape_counts_splits_and_what_hangs_below_the_tops() -> None:
    shape = shape_of(perfect_trees(3, 6))
    assert (shape.trees, shape.depth, shape.steps, shape.splits, shape.leaves) == (3, 6, 18, 63, 64)
    assert (shape.top_splits, shape.below) == (3 * 31, 3)
    assert shape_of(perfect_trees(3, 5)).below == 0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_forced_strategy_is_taken_in_kernels_too(strategy: str) -> None:
    plan = make_plan(program(4, 4), tree_strategy=strategy)
    assert plan.strategies == plan.kernel_strategies == {"trees": strategy}
    assert make_plan(program(4, 4)).kernel_strategies == {"trees": "bitvector"}


def test_building_pays_from_the_rows_that_the_plan_says() -> None:
    even = make_plan(program(50, 7)).break_even_rows
    assert even is not None
    plans: list[Plan] = [make_plan(program(50, 7), rows=rows) for rows in (even - 1, even)]
    assert [plan.pays for plan in plans] == [False, True]
    assert [plan.engine for plan in plans] == ["eager", "inductor"]
    assert f"pays from {even:,} rows" in plans[0].explain()
    assert make_plan(program(50, 7)).pays is None


def test_a_program_without_trees_builds_nothing_by_itself() -> None:
    assert make_plan(numbers()).pays is False
    assert make_plan(numbers(), backend="inductor").pays is True


def test_an_engine_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match="backend='tvm' is none of auto, eager, inductor"):
        make_plan(numbers(), backend="tvm")


def test_costs_come_back_and_those_of_another_version_do_not() -> None:
    costs = dataclasses.replace(Costs(), build_s=3.0)
    assert Costs.of_document(costs.document()) == costs
    for change in ({"other": 1.0}, {"call_s": -1.0}, {"call_s": float("nan")}):
        with pytest.raises((TypeError, ValueError)):
            Costs.of_document(costs.document() | change)
