"""Operators of ensembles and of interpolation against numpy, on drawn tables with ties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("torch")

from hypothesis import given
from hypothesis import strategies as st

from optimizer.compiling import (
    INPUT,
    Average,
    Builder,
    Constant,
    Interpolate,
    LogMean,
    Operator,
    Output,
    Pairwise,
    ProgramError,
    Recode,
    Select,
    Votes,
    WeightedMedian,
)
from udfs.compiling.torch import Engine

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEEDS = st.integers(0, 2**16)


def run(operator: Operator, table: NDArray[Any], *groups: list[int]) -> NDArray[Any]:
    """Run an operator on groups of columns, or on the whole table."""
    build = Builder(table.shape[1])
    inputs = [build.add(Select(np.array(group)), INPUT) for group in groups] or [INPUT]
    result: NDArray[Any] = Engine(build.program({"r": Output(build.add(operator, *inputs))})).run(table).outputs["r"]
    return result


@given(SEEDS)
def test_a_weighted_median_is_the_least_number_that_half_of_the_weights_reach(seed: int) -> None:
    draw = np.random.default_rng(seed)
    table, weights = draw.integers(0, 4, (20, 5)).astype(float), draw.integers(0, 3, 5) + (np.arange(5) == 2)
    found = run(WeightedMedian(weights.astype(float)), table)[:, 0]
    for row, value in zip(table, found, strict=True):
        reached = [number for number in sorted(row) if 2 * weights[row <= number].sum() >= weights.sum()]
        assert value == reached[0]


@given(SEEDS)
def test_votes_are_counted_for_the_class_that_is_named(seed: int) -> None:
    draw = np.random.default_rng(seed)
    places, hits, misses = draw.integers(-1, 3, (20, 4)), draw.normal(size=4), draw.normal(size=4)
    expected = np.zeros((20, 3))
    for voter in range(4):
        expected = expected + np.where(places[:, voter : voter + 1] == np.arange(3), hits[voter], misses[voter])
    np.testing.assert_array_equal(run(Votes(hits, misses, 3), places.astype(float)), expected)


@given(SEEDS, st.sampled_from(["left", "right"]), st.sampled_from(["nan", "clip"]))
def test_lines_between_knots_are_those_of_numpy(seed: int, side: str, outside: str) -> None:
    draw = np.random.default_rng(seed)
    x, y = np.cumsum(draw.random(6) + 0.01), draw.random(6)
    table = np.concatenate([x, np.nextafter(x, -np.inf), np.nextafter(x, np.inf), draw.random(20) * 8, [-np.inf, 1e9]])
    found = run(Interpolate(x, y, side, outside), table[:, None])[:, 0]
    expected = np.interp(table, x, y, *((np.nan, np.nan) if outside == "nan" else ()))
    if side == "right":
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_one_knot_and_a_line_that_is_too_steep() -> None:
    table = np.array([[-1.0], [0.0], [7.0]])
    assert run(Interpolate(np.array([3.0]), np.array([0.5])), table).tolist() == [[0.5]] * 3
    steep = Interpolate(np.array([0.0, 5e-324, 7.0]), np.array([0.0, 1.0, 1.0]))
    assert run(steep, table[1:]).tolist() == [[0.0], [1.0]]


def test_means_in_the_type_of_the_tables() -> None:
    table = np.array([[0.1, 0.2, 0.3, 0.4]])
    assert run(Average(np.zeros(0), 2.0), table, [0, 1], [2, 3]).tolist() == [[(0.1 + 0.3) / 2, (0.2 + 0.4) / 2]]
    assert run(Average(np.array([3.0, 1.0]), 4.0), table, [0], [1]).tolist() == [[(0.1 * 3.0 + 0.2 * 1.0) / 4.0]]
    single = table.astype(np.float32)
    assert run(Average(np.zeros(0), 2.0), single, [0], [1]).dtype == np.float32
    assert run(Average(np.ones(2), 2.0), single, [0], [1]).dtype == np.float64


def test_a_mean_of_logarithms_with_none_of_nothing() -> None:
    with np.errstate(divide="ignore"):
        logs = np.log(np.array([[0.0, 0.25, 0.0, 0.75]]))
    np.testing.assert_allclose(run(LogMean(2.0), logs, [0, 1], [2, 3]), [[-np.inf, np.log(0.5)]])


def test_pairs_are_won_by_votes_and_then_by_confidence() -> None:
    # Class 0 beats 1, 1 beats 2, 2 beats 0: a vote each, and the surest win of all is that of 2.
    decisions, confidences = [0.0, 1.0, 0.0], [-1.0, 5.0, -2.0]
    scores = run(Pairwise(3), np.array([decisions + confidences]), [0, 1, 2], [3, 4, 5])[0]
    sums = np.array([1.0 - 5.0, -1.0 + 2.0, 5.0 - 2.0])
    np.testing.assert_array_equal(scores, 1 + sums / (3 * (np.abs(sums) + 1)))


def test_constants_and_numbers_of_classes() -> None:
    table = np.array([[1.0], [0.0]])
    assert run(Constant(np.array([4, 5])), table).tolist() == [[4, 5], [4, 5]]
    assert run(Constant(np.array([4.0])), table[:0]).shape == (0, 1)
    build = Builder(1)
    place = build.add(Constant(np.array([2, 0])), INPUT)
    named = build.add(Recode(np.array([[7.5], [8.5], [9.5]] * 2), np.array([3, 3])), place)
    assert Engine(build.program({"r": Output(named)})).run(table).outputs["r"].tolist() == [[9.5, 7.5]] * 2


@pytest.mark.parametrize(
    ("operator", "groups", "message"),
    [
        (Average(np.ones(3), 1.0), [[0], [1]], "got 3 weights"),
        (Average(np.zeros(0), 1.0), [[0], [1, 2]], "tables of one width"),
        (LogMean(1.0), [[0], [1, 2]], "tables of one width"),
        (Votes(np.ones(2), np.ones(2), 2), [[0, 1, 2]], "must have 2 columns, got 3"),
        (Pairwise(3), [[0, 1, 2], [0, 1]], "must have 3 columns, got 2"),
        (WeightedMedian(np.ones(2)), [[0, 1, 2]], "must have 2 columns, got 3"),
        (Interpolate(np.ones(1), np.ones(1)), [[0, 1]], "must have 1 columns, got 2"),
    ],
)
def test_tables_that_do_not_fit_are_refused(operator: Operator, groups: list[list[int]], message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        run(operator, np.zeros((1, 3)), *groups)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [([1.0, 1.0], [0.0, 1.0], "ascend"), ([1.0], [0.0, 1.0], "shape"), ([], [], "shape"), ([1, 2], [0.0, 1.0], "type")],
)
def test_knots_that_are_none_are_refused(x: list[float], y: list[float], message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        Interpolate(np.array(x), np.array(y))
