from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from optimizer.errors import InvalidArgumentError
from optimizer.occlusion import OcclusionGrid
from udfs.attribution import (
    GroupedInputs,
    Importance,
    ScoredInputs,
    ablate,
    baseline_of,
    blurred,
    groups_along,
    mean_over_places,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def product_of_all(batches: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.prod([batch.reshape(len(batch), -1).prod(axis=1) for batch in batches], axis=0)


def ablated(inputs: Any, baselines: Any, groups: Any, score: Any = product_of_all, batch_size: Any = 32) -> Importance:
    return ablate(GroupedInputs(ScoredInputs(score, inputs, batch_size), baselines, groups))


def test_a_group_of_two_inputs_is_replaced_in_both_at_once() -> None:
    inputs, zeros = [np.array([2.0, 3.0]), np.array([5.0, 7.0])], [np.ones(2)] * 2
    result = ablated(inputs, zeros, [np.array([0, 1]), np.array([0, -1])])
    assert result.weights.tolist() == [210 - 21, 210 - 70]
    assert result.values[0].tolist() == [189.0, 140.0]
    assert result.values[1][0] == 189.0
    assert np.isnan(result.values[1][1])
    assert result.evaluations == 3


def test_the_effect_is_the_mean_over_the_draws_of_a_baseline() -> None:
    row, draws = np.array([4.0, 1.0]), np.array([[1.0, 1.0], [2.0, 1.0], [6.0, 1.0]])
    result = ablated([row], [draws], [groups_along((2,))], batch_size=2)
    np.testing.assert_allclose(result.weights, [4 - 3, 0])
    assert result.evaluations == 7


def test_the_inputs_stay_as_they_are() -> None:
    row = np.array([4.0, 1.0])
    ablated([row], [np.zeros(2)], [groups_along((2,))])
    assert row.tolist() == [4.0, 1.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"baselines": []}, "for each of 1 inputs, got 0"),
        ({"baselines": [np.zeros(3)]}, r"input 0 must have the input's shape \(2,\).* got shape \(3,\)"),
        ({"groups": [np.full(2, -1)]}, "no element with a group"),
        ({"groups": [np.zeros(2)]}, "float64"),
        ({"batch_size": 0}, "batch_size must be a positive integer, got 0"),
        ({"batch_size": True}, "batch_size must be a positive integer, got True"),
        ({"score": lambda batches: batches[0]}, "one number for each"),
        ({"score": lambda batches: np.full(len(batches[0]), np.nan)}, "NaN or infinite"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    good = {"inputs": [np.ones(2)], "baselines": [np.zeros(2)], "groups": [np.zeros(2, int)]}
    with pytest.raises(InvalidArgumentError, match=message):
        ablated(**{**good, **arguments})


def test_draws_of_two_inputs_have_one_number() -> None:
    inputs, groups = [np.ones(2)] * 2, [np.zeros(2, int)] * 2
    with pytest.raises(InvalidArgumentError, match=r"same number of draws, or one, got \[2, 3\]"):
        ablated(inputs, [np.zeros((2, 2)), np.zeros((3, 2))], groups)


@pytest.mark.parametrize("region", [None, ((1, 6), (0, 7))])
def test_an_element_has_the_mean_over_the_places_that_cover_it(region: Any) -> None:
    grid = OcclusionGrid((7, 7), (3, 2), (2, 1), region)
    effects = np.random.default_rng(0).normal(size=grid.shape)
    sums, counts = np.zeros((7, 7)), np.zeros((7, 7))
    for place in np.ndindex(grid.shape):
        at = tuple(slice(s := int(grid.starts(axis)[place[axis]]), s + grid.patch[axis]) for axis in (0, 1))
        sums[at] += effects[place]
        counts[at] += 1
    with np.errstate(invalid="ignore"):
        expected = sums / counts
    np.testing.assert_allclose(mean_over_places(effects, grid), expected, atol=1e-12)
    assert np.isnan(mean_over_places(effects, grid)).any() == (region is not None)


def test_a_heat_map_that_is_not_complete_is_refused() -> None:
    grid = OcclusionGrid((4,), (2,), (1,))
    with pytest.raises(InvalidArgumentError, match="got 1 of 3"):
        mean_over_places(np.array([1.0, np.nan, 1.0]), grid)
    with pytest.raises(InvalidArgumentError, match="the grid's shape"):
        mean_over_places(np.zeros(4), grid)


@pytest.mark.parametrize(
    ("baseline", "expected"),
    [
        ("color", [[[5.0, 5.0]], [[6.0, 6.0]]]),
        ("mean", [[[2.0, 2.0]], [[3.0, 3.0]]]),
        (0, [[[0.0, 0.0]], [[0.0, 0.0]]]),
        (np.array([[[7.0]], [[8.0]]]), [[[7.0, 7.0]], [[8.0, 8.0]]]),
        (lambda pixels: -pixels, [[[-1.0, -3.0]], [[-2.0, -4.0]]]),
    ],
)
def test_a_baseline_becomes_an_array_of_the_inputs_shape(baseline: Any, expected: Any) -> None:
    pixels = np.array([[[1.0, 3.0]], [[2.0, 4.0]]], np.float32)
    made = baseline_of(baseline, pixels, (1, 2), fill=(5.0, 6.0))
    assert made.dtype == np.float32
    assert made.tolist() == expected


def test_a_function_cannot_change_the_input_that_it_gets() -> None:
    pixels = np.ones((1, 2, 2))

    def darken(image: NDArray[Any]) -> NDArray[Any]:
        image *= 0
        return image

    assert baseline_of(darken, pixels, (1, 2)).sum() == 0
    assert pixels.sum() == 4


@pytest.mark.parametrize(
    ("baseline", "message"),
    [
        ("colour", r"did you mean.*color"),
        (np.zeros((3, 2, 2)), "shape .1, 2, 2. .* got .3, 2, 2."),
        (np.full((1, 2, 2), np.nan), "finite"),
        (lambda pixels: "no", "finite numbers"),
    ],
)
def test_a_baseline_that_does_not_do_is_refused(baseline: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        baseline_of(baseline, np.zeros((1, 2, 2)), (1, 2))


def test_a_blur_is_the_mean_of_what_there_is_around() -> None:
    image = np.random.default_rng(0).normal(size=(2, 5, 4))
    result = blurred(image, (1, 2), (3, 4))  # of the even extent one less counts
    for row, column in np.ndindex(5, 4):
        around = image[:, max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2]
        np.testing.assert_allclose(result[:, row, column], around.mean(axis=(1, 2)))


def test_groups_are_numbers_of_an_axis() -> None:
    assert groups_along((3, 2, 2), 0).shape == (3, 1, 1)
    assert groups_along((3, 2), -1).tolist() == [[0, 1]]
    with pytest.raises(InvalidArgumentError, match=r"axis must be one of the 2 axes .* got 2"):
        groups_along((3, 2), 2)
