from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from optimizer.errors import InvalidArgumentError
from udfs.attribution import ScoredInputs, rise
from udfs.attribution._rise import enlargement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

EXTENT, CELLS = 12, 3
IMAGE = np.random.default_rng(0).normal(size=(2, EXTENT, EXTENT))
WEIGHTS = np.random.default_rng(1).normal(size=(2, EXTENT, EXTENT))
BASELINE = np.full((2, EXTENT, EXTENT), 0.5)


def linear(batches: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.tensordot(batches[0], WEIGHTS, 3) + 10.0


def covariance() -> NDArray[Any]:
    """Of a line of a mask's elements, over the probability's variance; of a plane it is the product of two."""
    matrix = enlargement(EXTENT, CELLS)
    shifts = range(math.ceil(EXTENT / CELLS))
    return np.asarray(sum(matrix[s : s + EXTENT] @ matrix[s : s + EXTENT].T for s in shifts) / len(shifts))


def expected_values() -> NDArray[Any]:
    """The regression of a linear score on each element of a mask, for infinitely many masks."""
    line, effect = covariance(), ((IMAGE - BASELINE) * WEIGHTS).sum(axis=0)
    return line @ effect @ line.T


@pytest.mark.parametrize("probability", [0.3, 0.5])
def test_a_linear_score_converges_to_its_expectation(probability: float) -> None:
    errors = []
    for masks in (200, 20_000):
        result = rise(
            ScoredInputs(linear, [IMAGE], 500),
            BASELINE,
            (1, 2),
            masks=masks,
            cells=CELLS,
            probability=probability,
        )
        errors.append(np.sqrt(((result.values[0] - expected_values()) ** 2).mean()) / expected_values().std())
    assert errors[1] < 0.06
    assert 3 < errors[0] / errors[1] < 30  # a tenth, as the square root of the number of masks
    assert result.measures["agreement"] > 0.98
    assert result.evaluations == 20_001


def test_a_score_that_never_changes_is_attributed_to_nothing() -> None:
    result = rise(
        ScoredInputs(lambda batches: np.full(len(batches[0]), 0.7), [IMAGE]), BASELINE, (1, 2), masks=20, cells=2
    )
    np.testing.assert_allclose(result.values[0], 0, atol=1e-15)
    assert np.isnan(result.measures["agreement"])


def test_noise_has_no_agreement() -> None:
    random = np.random.default_rng(5)
    result = rise(
        ScoredInputs(lambda batches: random.normal(size=len(batches[0])), [IMAGE]), BASELINE, (1, 2), masks=400, cells=3
    )
    assert abs(result.measures["agreement"]) < 0.6


@pytest.mark.parametrize(("extent", "cells"), [(12, 3), (13, 5), (7, 7), (9, 1), (224, 7)])
def test_masks_are_enlarged_bilinearly(extent: int, cells: int) -> None:
    transform = pytest.importorskip("skimage.transform")
    matrix, mask = enlargement(extent, cells), np.random.default_rng(0).random((cells, 2))
    assert len(matrix) == (cells + 1) * math.ceil(extent / cells)
    expected = transform.resize(mask, (len(matrix), 2), order=1, mode="edge", anti_aliasing=False)
    np.testing.assert_allclose(matrix @ mask, expected, atol=1e-12)
    assert matrix.min() >= 0


def test_batches_do_not_change_the_masks() -> None:
    maps = [
        rise(ScoredInputs(linear, [IMAGE], size), BASELINE, (1, 2), masks=30, cells=3, seed=4).values[0]
        for size in (30, 7)
    ]
    np.testing.assert_allclose(maps[0], maps[1], atol=1e-12)


def test_channels_last_and_a_second_input() -> None:
    first = rise(ScoredInputs(linear, [IMAGE]), BASELINE, (1, 2), masks=50, cells=3)
    scored = ScoredInputs(
        lambda batches: linear([batches[1].transpose(0, 3, 1, 2)]) + batches[0],
        [np.array(2.0), IMAGE.transpose(1, 2, 0)],
    )
    last = rise(scored, BASELINE.transpose(1, 2, 0), (0, 1), place=1, masks=50, cells=3)
    np.testing.assert_allclose(first.values[0], last.values[0], atol=1e-9)
    assert last.whole == first.whole + 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"masks": 3}, "even"),
        ({"cells": 13}, "12 x 12"),
        ({"cells": 0}, "cells must be a positive integer, got 0"),
        ({"probability": 1.0}, "probability"),
        ({"probability": float("nan")}, "probability"),
        ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        rise(ScoredInputs(linear, [IMAGE]), BASELINE, (1, 2), **arguments)
