from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from optimizer.errors import InvalidArgumentError
from optimizer.occlusion import OcclusionGrid
from udfs.attribution import ablate, baseline_of, blurred, group_masks, groups_along, mean_over_places

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def product_of_all(batches: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.prod([batch.reshape(len(batch), -1).prod(axis=1) for batch in batches], axis=0)


def test_a_group_of_two_inputs_is_replaced_in_both_at_once() -> None:
    inputs, zeros = [np.array([2.0, 3.0]), np.array([5.0, 7.0])], [np.ones(2)] * 2
    ablated = ablate(product_of_all, inputs, zeros, group_masks([np.array([0, 1]), np.array([0, -1])]))
    assert ablated.effects.tolist() == [210 - 21, 210 - 70]
    assert ablated.values[0].tolist() == [189.0, 140.0]
    assert ablated.values[1][0] == 189.0
    assert np.isnan(ablated.values[1][1])
    assert ablated.evaluations == 3


def test_the_effect_is_the_mean_over_the_draws_of_a_baseline() -> None:
    row, draws = np.array([4.0, 1.0]), np.array([[1.0, 1.0], [2.0, 1.0], [6.0, 1.0]])
    ablated = ablate(product_of_all, [row], [draws], group_masks([groups_along((2,))]), batch_size=2)
    np.testing.assert_allclose(ablated.effects, [4 - 3, 0])
    assert ablated.evaluations == 7


def test_the_inputs_stay_as_they_are() -> None:
    row = np.array([4.0, 1.0])
    ablate(product_of_all, [row], [np.zeros(2)], group_masks([groups_along((2,))]))
    assert row.tolist() == [4.0, 1.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"parts": []}, "no parts"),
        ({"baselines": []}, "0 baselines for 1 inputs"),
        ({"baselines": [np.zeros(3)]}, r"shape \(3,\) for input 0 of shape \(2,\)"),
        ({"parts": [(np.zeros(2, bool),)]}, "part 0 covers nothing"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"batch_size": True}, "batch_size=True"),
        ({"score": lambda batches: batches[0]}, "one number for each input"),
        ({"score": lambda batches: np.full(len(batches[0]), np.nan)}, "NaN or infinite"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    good = {"score": product_of_all, "inputs": [np.ones(2)], "baselines": [np.zeros(2)], "parts": [(np.ones(2, bool),)]}
    with pytest.raises(InvalidArgumentError, match=message):
        ablate(**{**good, **arguments})


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
    with pytest.raises(InvalidArgumentError, match="1 of 3 places"):
        mean_over_places(np.array([1.0, np.nan, 1.0]), grid)
    with pytest.raises(InvalidArgumentError, match="for a grid of"):
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
        (np.zeros((3, 2, 2)), "shape .3, 2, 2. for an input of shape .1, 2, 2."),
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
    with pytest.raises(InvalidArgumentError, match="axis=2"):
        groups_along((3, 2), 2)
    with pytest.raises(InvalidArgumentError, match="float64"):
        group_masks([np.zeros(2)])
    with pytest.raises(InvalidArgumentError, match="no element has a group"):
        group_masks([np.full(2, -1)])
