"""Plans: what is forced stays, what is chosen is the cheapest, and building pays from the rows that it says."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from optimizer.compiling import (
    FEW_ROWS,
    INPUT,
    STRATEGIES,
    WALKED_ROWS,
    Arithmetic,
    Builder,
    Costs,
    Linear,
    Output,
    Plan,
    Program,
    Trees,
    UnsupportedOperatorError,
    eager_terms,
    fit_costs,
    make_plan,
    scale_kernels,
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


def chain(depth: int) -> Program:
    """One split a level: the odd nodes are leaves, the even ones go on."""
    place = np.arange(2 * depth + 1)
    split = (place % 2 == 0) & (place < 2 * depth)
    tree = Trees.of_nodes(
        feature=np.zeros(len(place)),
        threshold=np.zeros(len(place), np.float32),
        left=np.where(split, place + 1, -1),
        right=np.where(split, place + 2, -1),
        missing_left=np.zeros(len(place), np.bool_),
        value=np.zeros((len(place), 1)),
        root=[0],
        target=[0],
        base=[0.0],
        divisor=1.0,
        features=1,
        missing=False,
    )
    build = Builder(1)
    return build.program({"predict": Output(build.add(tree, INPUT))})


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
    assert plan.strategies == {"trees": strategy}
    assert plan.kernel_strategies == {"trees": "bitvector" if strategy == "native" else strategy}
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


@pytest.mark.parametrize(
    ("cheap", "chosen"),
    [
        ("walk_s", "traversal"),
        ("perfect_s", "perfect"),
        ("strike_s", "bitvector"),
        ("split_s", "gemm"),
        ("native_split_s", "native"),
    ],
)
def test_the_strategy_is_the_one_that_the_costs_predict_to_be_fastest(cheap: str, chosen: str) -> None:
    dear = dict.fromkeys(("walk_s", "perfect_s", "strike_s", "split_s", "native_split_s"), 1e-06)
    plan = make_plan(program(20, 3), costs=dataclasses.replace(Costs(), **(dear | {cheap: 1e-12})))
    assert plan.strategies == {"trees": chosen}
    predicted = {
        strategy: make_plan(program(20, 3), tree_strategy=strategy, costs=plan.costs).eager_seconds(10_000)
        for strategy in STRATEGIES
    }
    assert min(predicted, key=lambda strategy: predicted[strategy]) == chosen


def test_few_rows_have_a_strategy_of_few_calls() -> None:
    plan = make_plan(
        program(50, 5),
        costs=dataclasses.replace(Costs(), call_s=2e-4, mac_s=1e-9, native_call_s=math.inf, native_row_s=math.inf),
    )
    assert plan.strategies_for(1) == {"trees": "gemm"}
    assert plan.strategies_for(100_000) != {"trees": "gemm"}
    assert "up to 64 rows by gemm" in plan.explain()


def test_a_machine_without_native_code_runs_trees_in_torch() -> None:
    without = dataclasses.replace(Costs(), native_call_s=math.inf, native_row_s=math.inf)
    assert Costs.of_document(without.document()) == without
    plan, other = make_plan(program(50, 5), costs=without), make_plan(program(50, 5), costs=Costs())
    assert (other.strategies, other.few_strategies) == ({"trees": "native"}, {"trees": "native"})
    assert "native" not in {*plan.strategies.values(), *plan.few_strategies.values()}
    assert plan.chunk < other.chunk


def test_trees_that_gemm_and_perfect_trees_cannot_hold_are_walked() -> None:
    deep = chain(27)
    costs = dataclasses.replace(Costs(), perfect_s=0.0, walk_s=1.0, strike_s=1.0, split_s=1.0)
    assert make_plan(deep, costs=costs).strategies != {"trees": "perfect"}


def test_calls_are_what_one_row_takes_and_numbers_what_many_take() -> None:
    """A dearer call makes every table dearer by as much, however many rows it has."""
    plan = make_plan(program(20, 3), tree_strategy="native", costs=Costs())
    dear = dataclasses.replace(Costs(), few_run_s=Costs().few_run_s + 1, run_s=Costs().run_s + 2)
    slow = make_plan(program(20, 3), tree_strategy="native", costs=dear)
    for rows, more in ((1, 1), (FEW_ROWS, 1), (FEW_ROWS + 1, 2), (100_000, 2)):
        assert slow.eager_seconds(rows) - plan.eager_seconds(rows) == pytest.approx(more)
    assert slow.kernel_seconds(1) - plan.kernel_seconds(1) == pytest.approx(2)
    # Up to four rows step down alone: a vector of sixteen costs as much for one as for all of them.
    walked, vector = (
        eager_terms(plan.shapes["trees"], "native", rows, 1024) for rows in (WALKED_ROWS, WALKED_ROWS + 1)
    )
    assert (walked["native_row_s"], walked["native_step_s"]) == (1, WALKED_ROWS * 20 * 3)
    assert vector["native_split_s"] == 16 * plan.shapes["trees"].top_splits


def test_costs_are_found_again_in_times_that_they_made() -> None:
    truth = dataclasses.replace(Costs(), call_s=3e-6, walk_s=2e-8, perfect_s=5e-9, sum_s=4e-9, far_s=0.0)
    cases = [(perfect_trees(count, depth), rows) for count, depth in ((8, 3), (50, 6), (20, 9)) for rows in (1, 700)]
    measured = []
    for trees, rows in cases:
        for strategy in ("traversal", "perfect"):
            terms = eager_terms(shape_of(trees), strategy, rows, 1024)
            measured.append((terms, sum(getattr(truth, name) * times for name, times in terms.items())))
    found = fit_costs(measured)
    for name in ("call_s", "walk_s", "perfect_s", "sum_s"):
        assert getattr(found, name) == pytest.approx(getattr(truth, name), rel=0.02)
    assert found.build_s == Costs().build_s


def test_kernels_cost_what_the_node_has_seen() -> None:
    costs = scale_kernels(Costs(), 2.0, 7.0)
    assert (costs.bit_s, costs.kernel_call_s, costs.build_s) == (2 * Costs().bit_s, 2 * Costs().kernel_call_s, 7.0)
    assert costs.walk_s == Costs().walk_s


def test_narrow_tables_run_in_longer_chunks() -> None:
    """Half a million numbers at a time; trees count by their own gathers, and wide tables by their widest one."""

    def chunk(width: int, *, columns: int = 1) -> int:
        build = Builder(width)
        scores = build.add(Linear(np.ones((width, columns)), np.zeros(columns)), INPUT)
        return make_plan(build.program({"predict": Output(scores)})).chunk

    assert chunk(4) == 2**17
    assert chunk(20) == 2**19 // 20
    assert chunk(4, columns=16) == 2**15
    assert chunk(64) == chunk(200) == 8192
    assert chunk(4096) == chunk(4, columns=4096) == 128
