"""Cases of captum's own tests of FeatureAblation (tests/attr, BSD licence)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from udfs.attribution import GroupedInputs, ScoredInputs, ablate, groups_along

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def relu(values: NDArray[Any]) -> NDArray[Any]:
    return np.maximum(values, 0)


def multi_layer(batches: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """captum's BasicModel_MultiLayer over the sum of its inputs, output 0."""
    hidden = relu(sum(batches).sum(axis=1)[:, None] + np.array([-10.0, 1.0, 1.0, 1.0]))
    return hidden.sum(axis=1) - 1


def basic(batches: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """captum's BasicModel, output 0."""
    return 1 - relu(1 - batches[0])[:, 0]


def one_conv(batches: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """captum's BasicModel_ConvNet_One_Conv on (1, 4, 4), output 0."""
    image = sum(batches)[:, 0]
    sums = sum(image[:, row : row + 2, column : column + 2] for row in range(3) for column in range(3))
    hidden = relu(np.stack([sums - 50, sums - 75], axis=1)).reshape(len(image), 8)
    return relu(hidden[:, :5].sum(axis=1) - hidden[:, 5:].sum(axis=1))


ROW = np.array([20.0, 50.0, 30.0])
FIRST = (np.array([[23.0, 100.0, 0.0], [20.0, 50.0, 30.0]]), np.array([[20.0, 50.0, 30.0], [0.0, 100.0, 0.0]]))
THIRD = np.array([[0.0, 100.0, 10.0], [2.0, 10.0, 3.0]])
IMAGE, ONES = np.arange(16.0).reshape(1, 4, 4), np.ones((1, 4, 4))


def ablated(score: Any, inputs: Any, baselines: Any, groups: Any) -> tuple[NDArray[Any], ...]:
    return ablate(GroupedInputs(ScoredInputs(score, inputs), baselines, groups)).values


@pytest.mark.parametrize(
    ("score", "row", "groups", "baseline", "expected"),
    [
        (multi_layer, ROW, [0, 1, 2], 0.0, [80.0, 200.0, 120.0]),
        (multi_layer, ROW, [0, 0, 1], 0.0, [280.0, 280.0, 120.0]),
        (multi_layer, ROW, [0, 0, 1], 4.0, [248.0, 248.0, 104.0]),
        (multi_layer, np.array([2.0, 10.0, 3.0]), [0, 0, 1], 0.0, [41.0, 41.0, 12.0]),
        (multi_layer, ROW, [1, 1, 0], 0.0, [280.0, 280.0, 120.0]),
        (basic, np.array([-3, 1, 2]), [0, 1, 2], 0, [-3.0, 0.0, 0.0]),
    ],
)
def test_ablation_of_groups_of_a_row(
    score: Any, row: NDArray[Any], groups: list[int], baseline: Any, expected: Any
) -> None:
    values = ablated(score, [row], [np.full_like(row, baseline)], [np.array(groups)])
    np.testing.assert_allclose(values[0], expected)


@pytest.mark.parametrize(
    ("row", "baselines", "groups", "expected"),
    [
        (0, (0, 0, 0), ([3, 3, 3], [4, 5, 6], [7, 8, 9]), ([492.0] * 3, [80.0, 200.0, 120.0], [0.0, 400.0, 40.0])),
        (1, (0, 0, 0), ([0, 1, 0], [4, 5, 6], [7, 7, 7]), ([200.0] * 3, [0.0, 400.0, 0.0], [60.0] * 3)),
        (0, (2, 3, 4), ([3, 3, 3], [4, 5, 6], [7, 8, 9]), ([468.0] * 3, [68.0, 188.0, 108.0], [-16.0, 384.0, 24.0])),
        (1, (2, 3, 4), ([0, 1, 0], [4, 5, 6], [7, 7, 7]), ([184.0, 192.0, 184.0], [-12.0, 388.0, -12.0], [12.0] * 3)),
    ],
)
def test_ablation_of_groups_of_three_inputs(row: int, baselines: Any, groups: Any, expected: Any) -> None:
    inputs = [FIRST[0][row], FIRST[1][row], THIRD[row]]
    full = [np.full(3, float(baseline)) for baseline in baselines]
    values = ablated(multi_layer, inputs, full, [np.array(numbers) for numbers in groups])
    np.testing.assert_allclose(values, expected)


def test_ablation_of_an_images_pixels() -> None:
    pixels = groups_along((1, 4, 4))
    zeros = [np.zeros((1, 4, 4))] * 2
    values = ablated(one_conv, [IMAGE, ONES], zeros, [pixels, pixels + 16])
    np.testing.assert_allclose(
        values[0][0], [[0.0, 2.0, 4.0, 3.0], [4.0, 9.0, 10.0, 7.0], [4.0, 13.0, 14.0, 11.0], [0.0] * 4]
    )
    np.testing.assert_allclose(values[1][0], [[1.0, 2.0, 2.0, 1.0]] * 3 + [[0.0] * 4])
