"""The literal cases of captum's own tests of Occlusion and FeatureAblation (tests/attr, BSD licence)."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from udfs.attribution import ablate, group_masks, groups_along

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


def difference(batches: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """captum's BasicModel3."""
    return relu(relu(batches[0] - 1) - relu(batches[1]))[:, 0]


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


def windows(
    shape: tuple[int, ...], window: tuple[int, ...], stride: tuple[int, ...], inputs: int = 1, of: int = 0
) -> list[Any]:
    """Places of a window of captum's: the last one is cut at the border."""
    starts = [
        range(0, max(n - w, 0) + -(-max(n - w, 0) % -s) % s + 1, s)
        for n, w, s in zip(shape, window, stride, strict=True)
    ]
    return [
        tuple(
            tuple(slice(a, a + w) for a, w in zip(start, window, strict=True)) if number == of else None
            for number in range(inputs)
        )
        for start in product(*starts)
    ]


def occluded(
    score: Any,
    inputs: Sequence[NDArray[Any]],
    shapes: Sequence[tuple[int, ...]],
    strides: Sequence[tuple[int, ...]],
    baselines: Sequence[Any] | None = None,
    batch_size: int = 32,
) -> list[NDArray[Any]]:
    baselines = [0.0] * len(inputs) if baselines is None else baselines
    full = [np.broadcast_to(baseline, array.shape) for baseline, array in zip(baselines, inputs, strict=True)]
    return [
        ablate(score, inputs, full, windows(array.shape, shape, stride, len(inputs), of), batch_size=batch_size).values[
            of
        ]
        for of, (array, shape, stride) in enumerate(zip(inputs, shapes, strides, strict=True))
    ]


@pytest.mark.parametrize("batch_size", [1, 2, 3])
@pytest.mark.parametrize(
    ("window", "stride", "baseline", "expected"),
    [
        ((1,), (1,), 0.0, [80.0, 200.0, 120.0]),
        ((2,), (1,), 10.0, [200.0, 220.0, 240.0]),
        ((2,), (2,), 0.0, [280.0, 280.0, 120.0]),
    ],
)
def test_occlusion_of_a_row(
    window: tuple[int], stride: tuple[int], baseline: float, expected: list[float], batch_size: int
) -> None:
    (values,) = occluded(multi_layer, [ROW], [window], [stride], [baseline], batch_size)
    np.testing.assert_allclose(values, expected)


def test_occlusion_of_several_rows() -> None:
    (values,) = occluded(multi_layer, [np.array([2.0, 10.0, 3.0])], [(1,)], [(1,)])
    np.testing.assert_allclose(values, [8.0, 35.0, 12.0])


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
@pytest.mark.parametrize(("row", "expected"), [((-10, -5), (0.0, 0.0)), ((3, 1), (1.0, -1.0))])
def test_occlusion_of_two_inputs(row: tuple[int, int], expected: tuple[float, float], dtype: Any) -> None:
    inputs = [np.array([value], dtype) for value in row]
    values = occluded(difference, inputs, [(1,), (1,)], [(1,), (1,)])
    np.testing.assert_allclose(np.ravel(values), expected)


@pytest.mark.parametrize(
    ("row", "baselines", "strides", "expected"),
    [
        (0, None, (1, 1, 1), ([492.0] * 3, [80.0, 200.0, 120.0], [400.0, 420.0, 440.0])),
        (1, None, (1, 1, 1), ([400.0] * 3, [0.0, 400.0, 0.0], [48.0, 50.0, 52.0])),
        (0, ([1.0, 4, 7], 3.0, 4.0), (2, 1, 2), ([444.0] * 3, [68.0, 188.0, 108.0], [368.0, 368.0, 24.0])),
        (1, ([3.0, 6, 9], 3.0, 6.0), (2, 1, 2), ([328.0] * 3, [-12.0, 388.0, -12.0], [0.0, 0.0, -12.0])),
    ],
)
def test_occlusion_of_three_inputs(row: int, baselines: Any, strides: Any, expected: Any) -> None:
    inputs = [FIRST[0][row], FIRST[1][row], THIRD[row]]
    values = occluded(multi_layer, inputs, [(3,), (1,), (2,)], [(stride,) for stride in strides], baselines)
    np.testing.assert_allclose(values, expected)


@pytest.mark.parametrize("batch_size", [1, 3, 7, 14])
def test_occlusion_of_two_images(batch_size: int) -> None:
    whole = occluded(one_conv, [IMAGE, ONES], [(1, 4, 4)] * 2, [(1, 1, 1)] * 2, None, batch_size)
    np.testing.assert_allclose(whole[0], np.full((1, 4, 4), 67.0))
    np.testing.assert_allclose(whole[1], np.full((1, 4, 4), 13.0))
    values = occluded(one_conv, [IMAGE, ONES], [(1, 2, 3), (1, 1, 2)], [(1, 2, 1), (1, 1, 2)], None, batch_size)
    np.testing.assert_allclose(
        values[0][0], [[17.0] * 4, [17.0] * 4, [64.0, 65.5, 65.5, 67.0], [64.0, 65.5, 65.5, 67.0]]
    )
    np.testing.assert_allclose(values[1][0], [[3.0] * 4, [3.0] * 4, [3.0] * 4, [0.0] * 4])


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
    masks = group_masks([np.array(groups)])
    np.testing.assert_allclose(ablate(score, [row], [np.full_like(row, baseline)], masks).values[0], expected)


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
    values = ablate(multi_layer, inputs, full, group_masks([np.array(numbers) for numbers in groups])).values
    np.testing.assert_allclose(values, expected)


def test_ablation_of_an_images_pixels() -> None:
    pixels = groups_along((1, 4, 4))
    zeros = [np.zeros((1, 4, 4))] * 2
    values = ablate(one_conv, [IMAGE, ONES], zeros, group_masks([pixels, pixels + 16])).values
    np.testing.assert_allclose(
        values[0][0], [[0.0, 2.0, 4.0, 3.0], [4.0, 9.0, 10.0, 7.0], [4.0, 13.0, 14.0, 11.0], [0.0] * 4]
    )
    np.testing.assert_allclose(values[1][0], [[1.0, 2.0, 2.0, 1.0]] * 3 + [[0.0] * 4])
