"""Trees as tensors against a walk from node to node, for every strategy, on drawn trees and numbers."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("torch")

from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.compiling import INPUT, STRATEGIES, Builder, Finite, Output, Program, Trees
from udfs.compiling.torch import Engine

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEATURES = 3


def drawn(seed: int, count: int, depth: int, columns: int, *, missing: bool) -> Trees:
    """Trees of random shapes, whose thresholds are few, so that numbers meet them."""
    draw = np.random.default_rng(seed)
    rows: list[tuple[int, float, int, int]] = []

    def grow(left: int) -> int:
        own = len(rows)
        rows.append((0, 0.0, -1, -1))
        if left and draw.random() < 0.8:
            feature, threshold = int(draw.integers(FEATURES)), float(draw.integers(-2, 3))
            rows[own] = (feature, threshold, grow(left - 1), grow(left - 1))
        return own

    roots = [grow(depth) for _ in range(count)]
    feature, threshold, left, right = zip(*rows, strict=True)
    return Trees.of_nodes(
        feature=feature,
        threshold=np.array(threshold, np.float32),
        left=left,
        right=right,
        missing_left=draw.random(len(rows)) < 0.5,
        value=draw.normal(size=(len(rows), 1)),
        root=roots,
        target=draw.integers(0, columns, count),
        base=draw.normal(size=columns),
        divisor=1.0,
        features=FEATURES,
        missing=missing,
    )


def walked(trees: Trees, table: NDArray[np.float32]) -> NDArray[np.float64]:
    sums = np.repeat(trees.base[None], len(table), axis=0)
    for row, values in enumerate(table):
        for root, target in zip(trees.root, trees.target, strict=True):
            at = root
            while trees.left[at] != at:
                value = values[trees.feature[at]]
                left = trees.missing_left[at] if np.isnan(value) else value <= trees.threshold[at]
                at = trees.left[at] if left else trees.right[at]
            sums[row, target] += trees.value[at, 0]
    return sums


def program(trees: Trees) -> Program:
    build = Builder(FEATURES)
    return build.program({"predict": Output(build.add(trees, INPUT))})


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**16),
    st.integers(1, 6),
    st.integers(0, 5),
    st.integers(1, 3),
    st.booleans(),
    st.sampled_from(STRATEGIES),
)
def test_every_strategy_gives_the_sums_of_a_walk(
    seed: int, count: int, depth: int, columns: int, missing: bool, strategy: str
) -> None:
    trees = drawn(seed, count, depth, columns, missing=missing)
    draw = np.random.default_rng(seed + 1)
    numbers = [-np.inf, -2.0, -0.0, 0.0, 1.0, np.nextafter(np.float32(1), np.float32(2)), np.inf]
    table = draw.choice(np.array([*numbers, *([np.nan] if missing else [])], np.float32), (9, FEATURES))
    found = Engine(program(trees), strategy).run(table).outputs["predict"]
    np.testing.assert_array_equal(found, walked(trees, table))


def test_rows_are_run_in_chunks_that_make_no_difference() -> None:
    trees = drawn(3, 5, 4, 2, missing=False)
    table = np.random.default_rng(0).normal(size=(50, FEATURES)).astype(np.float32)
    engine = Engine(program(trees))
    whole = engine.run(table).outputs["predict"]
    engine.plan = dataclasses.replace(engine.plan, chunk=7)
    np.testing.assert_array_equal(engine.run(table).outputs["predict"], whole)


@pytest.mark.parametrize(
    ("dtype", "nan", "bad"),
    [("float32", False, [1, 2, 3]), ("float64", False, [1, 2]), ("as given", True, [2]), ("float32", True, [2, 3])],
)
def test_rows_that_a_library_refuses(dtype: str, nan: bool, bad: list[int]) -> None:
    build = Builder(1)
    held = build.add(Finite(dtype, nan, "Model"), INPUT)
    answer = Engine(build.program({"transform": Output(held)})).run(np.array([[1.0], [np.nan], [-np.inf], [1e39]]))
    assert np.flatnonzero(answer.bad).tolist() == bad
    assert "which Model does not take" in answer.reasons[0]
