from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from optimizer.errors import InvalidArgumentError
from udfs.attribution import GroupedInputs, ScoredInputs, shapley

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

ROW, BASELINE = np.array([1.0, -2.0, 4.0, 0.5, 3.0]), np.full(5, 0.25)


def crossed(batches: Sequence[NDArray[Any]]) -> NDArray[Any]:
    row = batches[0]
    return row[:, 0] * row[:, 1] + np.maximum(row[:, 2] - row[:, 3], 0) * row[:, 4] + row[:, 4]


def averaged_over_all_orders() -> NDArray[Any]:
    """The definition, group by group and order by order."""
    sums, orders = np.zeros(5), list(permutations(range(5)))
    for order in orders:
        state = BASELINE.copy()
        for group in order:
            before = crossed([state[None]])[0]
            state[group] = ROW[group]
            sums[group] += crossed([state[None]])[0] - before
    return sums / len(orders)


def test_few_groups_are_exact() -> None:
    result = shapley(GroupedInputs(ScoredInputs(crossed, [ROW]), [BASELINE], [np.arange(5)]), orders=20)
    np.testing.assert_allclose(result.weights, averaged_over_all_orders())
    assert (result.measures["error"], result.evaluations) == (0.0, 32)
    assert result.whole == crossed([ROW[None]])[0]


def test_sampled_orders_converge_to_the_definition() -> None:
    few, many = (
        shapley(GroupedInputs(ScoredInputs(crossed, [ROW]), [BASELINE], [np.arange(5)]), orders=orders, seed=3)
        for orders in (4, 6)
    )
    for result, orders in ((few, 4), (many, 6)):
        assert result.evaluations == 2 + 4 * orders
        assert result.whole == crossed([ROW[None]])[0]
        np.testing.assert_allclose(result.weights.sum(), result.whole - crossed([BASELINE[None]])[0])
        assert result.measures["error"] > 0
    samples = [
        shapley(GroupedInputs(ScoredInputs(crossed, [ROW]), [BASELINE], [np.arange(5)]), orders=6, seed=seed)
        for seed in range(300)
    ]
    mean, spread = (
        np.mean([each.weights for each in samples], axis=0),
        np.std([each.weights for each in samples], axis=0),
    )
    np.testing.assert_allclose(mean, averaged_over_all_orders(), atol=4 * spread.max() / np.sqrt(300))
    # The error that each run reports is the spread that runs have.
    assert np.sqrt(np.mean([each.measures["error"] ** 2 for each in samples])) == pytest.approx(spread.max(), rel=0.35)


@pytest.mark.parametrize(
    ("row", "groups", "expected"),
    [
        ([20.0, 50.0, 30.0], [0, 1, 2], [76.66666, 196.66666, 116.66666]),
        ([20.0, 50.0, 30.0], [0, 0, 1], [275.0, 275.0, 115.0]),
    ],
)
def test_captums_own_cases(row: list[float], groups: list[int], expected: list[float]) -> None:
    """Of ShapleyValues and ShapleyValueSampling, with BasicModel_MultiLayer."""

    def multi_layer(batches: Sequence[NDArray[Any]]) -> NDArray[Any]:
        hidden = np.maximum(batches[0].sum(axis=1)[:, None] + np.array([-10.0, 1.0, 1.0, 1.0]), 0)
        return hidden.sum(axis=1) - 1

    result = shapley(GroupedInputs(ScoredInputs(multi_layer, [np.array(row)]), [np.zeros(3)], [np.array(groups)]))
    np.testing.assert_allclose(result.values[0], expected, rtol=1e-6)


def test_elements_without_a_group_stay() -> None:
    result = shapley(
        GroupedInputs(ScoredInputs(crossed, [ROW]), [BASELINE], [np.array([0, -1, 1, -1, 2])]), orders=4, seed=1
    )
    assert np.isnan(result.values[0][[1, 3]]).all()
    kept = np.where([False, True, False, True, False], ROW, BASELINE)
    np.testing.assert_allclose(result.weights.sum(), crossed([ROW[None]])[0] - crossed([kept[None]])[0])


@pytest.mark.parametrize("orders", [2, 5, 0, True])
def test_bad_orders_are_refused(orders: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="orders must be"):
        shapley(GroupedInputs(ScoredInputs(crossed, [ROW]), [BASELINE], [np.arange(5)]), orders=orders)


def test_an_order_and_its_opposite_share_a_product_of_two_evenly() -> None:
    def product(batches: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return batches[0][:, 0] * batches[0][:, 1]

    result = shapley(GroupedInputs(ScoredInputs(product, [np.full(9, 2.0)]), [np.zeros(9)], [np.arange(9)]), orders=4)
    np.testing.assert_allclose(result.weights, [2.0, 2.0, *[0.0] * 7], atol=1e-12)
    assert result.evaluations == 2 + 8 * 4
    assert result.measures["error"] == 0
