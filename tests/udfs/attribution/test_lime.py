from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from optimizer.errors import InvalidArgumentError
from udfs.attribution import GroupedInputs, ScoredInputs, lime, superpixels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

ROW = np.array([1.0, -2.0, 4.0, 0.5])


def crossed(batches: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Two columns that count only together, and one that counts against."""
    return batches[0][:, 0] * batches[0][:, 1] + np.tanh(batches[0][:, 2])


def linear(batches: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return 3.0 + batches[0] @ np.array([2.0, 1.0, -1.0, 4.0])


def test_a_linear_models_weights_are_recovered_exactly() -> None:
    baseline = np.full(4, 0.25)
    surrogate = lime(
        GroupedInputs(ScoredInputs(linear, [ROW]), [baseline], [np.array([0, 0, 1, 2])]), samples=50, ridge=0.0
    )
    parts = (ROW - baseline) * np.array([2.0, 1.0, -1.0, 4.0])
    np.testing.assert_allclose(surrogate.weights, [parts[0] + parts[1], parts[2], parts[3]])
    np.testing.assert_allclose(surrogate.measures["r2"], 1.0)
    np.testing.assert_allclose(surrogate.values[0], surrogate.weights[[0, 0, 1, 2]])
    assert surrogate.whole == linear([ROW[None]])[0]
    assert surrogate.evaluations == 50


def test_the_regression_is_scikit_learns() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    asked: list[NDArray[Any]] = []

    def score(batches: Sequence[NDArray[Any]]) -> NDArray[Any]:
        asked.append(batches[0].copy())
        return crossed(batches)

    surrogate = lime(
        GroupedInputs(ScoredInputs(score, [ROW], 7), [np.zeros(4)], [np.arange(4)]),
        samples=200,
        ridge=1.0,
        kernel_width=0.3,
    )
    rows = np.concatenate(asked)
    there = (rows == ROW).astype(float)
    distances = 1 - there.sum(axis=1) / np.maximum(np.sqrt(there.sum(axis=1) * 4), 1e-300)  # cosine, from all ones
    kernel = np.sqrt(np.exp(-(distances**2) / 0.3**2))
    expected = linear_model.Ridge(alpha=1.0).fit(there, crossed([rows]), sample_weight=kernel)
    np.testing.assert_allclose(surrogate.weights, expected.coef_, atol=1e-10)
    np.testing.assert_allclose(
        surrogate.measures["r2"], expected.score(there, crossed([rows]), sample_weight=kernel), atol=1e-10
    )


def test_the_r2_of_samples_left_out_is_that_of_as_many_fits() -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    asked: list[NDArray[Any]] = []

    def noise(batches: Sequence[NDArray[Any]]) -> NDArray[Any]:
        asked.append(batches[0].copy())
        return np.sin(1e3 * (batches[0] @ np.array([1.0, 2.0, 3.0, 4.0])))

    surrogate = lime(GroupedInputs(ScoredInputs(noise, [ROW]), [np.zeros(4)], [np.arange(4)]), samples=12, ridge=0.5)
    rows = np.concatenate(asked)
    there, scores = (rows == ROW).astype(float), noise([rows])
    kernel = np.sqrt(np.exp(-((1 - np.sqrt(there.mean(axis=1))) ** 2) / 0.25**2))
    predicted = np.empty(12)
    for at in range(12):
        others = np.arange(12) != at
        fit = linear_model.Ridge(alpha=0.5).fit(there[others], scores[others], sample_weight=kernel[others])
        predicted[at] = fit.predict(there[at : at + 1])[0]
    variance = kernel @ (scores - np.average(scores, weights=kernel)) ** 2
    np.testing.assert_allclose(
        surrogate.measures["left_out_r2"], 1 - kernel @ (scores - predicted) ** 2 / variance, atol=1e-9
    )
    assert surrogate.measures["r2"] > 0.7, "a good R2 of noise, as samples are few"
    assert surrogate.measures["left_out_r2"] < 0.3


def test_the_package_lime_fits_the_same_model() -> None:
    lime_base = pytest.importorskip("lime.lime_base")
    asked: list[NDArray[Any]] = []

    def score(batches: Sequence[NDArray[Any]]) -> NDArray[Any]:
        asked.append(batches[0].copy())
        return crossed(batches)

    surrogate = lime(GroupedInputs(ScoredInputs(score, [ROW]), [np.zeros(4)], [np.arange(4)]), samples=300)
    rows = np.concatenate(asked)
    there = (rows == ROW).astype(float)
    distances = 1 - np.sqrt(there.mean(axis=1))
    base = lime_base.LimeBase(lambda d, width=0.25: np.sqrt(np.exp(-(d**2) / width**2)))
    _, weights, r2, _ = base.explain_instance_with_data(
        there, crossed([rows])[:, None], distances, 0, 4, feature_selection="none"
    )
    np.testing.assert_allclose(surrogate.weights, [weight for _, weight in sorted(weights)], atol=1e-10)
    np.testing.assert_allclose(surrogate.measures["r2"], r2, atol=1e-10)


def test_a_model_that_is_not_linear_says_so_by_its_r2() -> None:
    surrogate = lime(GroupedInputs(ScoredInputs(crossed, [ROW]), [np.zeros(4)], [np.arange(4)]), samples=400, ridge=0.0)
    assert 0.3 < surrogate.measures["r2"] < 0.99


def test_a_score_that_never_changes_has_no_r2() -> None:
    surrogate = lime(
        GroupedInputs(
            ScoredInputs(lambda batches: np.full(len(batches[0]), 0.7), [ROW]), [np.zeros(4)], [np.arange(4)]
        ),
        samples=50,
    )
    np.testing.assert_allclose(surrogate.weights, 0, atol=1e-12)
    assert np.isnan(surrogate.measures["r2"])
    assert np.isnan(surrogate.measures["left_out_r2"])


def test_the_seed_decides() -> None:
    runs = [
        lime(GroupedInputs(ScoredInputs(crossed, [ROW]), [np.zeros(4)], [np.arange(4)]), samples=30, seed=seed).weights
        for seed in (1, 1, 2)
    ]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"samples": 5}, "at least 6"),
        ({"samples": 2.5}, "samples must be a positive integer, got 2.5"),
        ({"kernel_width": 0.0}, "kernel_width"),
        ({"ridge": -1.0}, "ridge"),
        ({"ridge": float("nan")}, "ridge"),
        ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
        ({"seed": "cat"}, "seed must be an integer of at least 0, got 'cat'"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        lime(GroupedInputs(ScoredInputs(linear, [ROW]), [np.zeros(4)], [np.arange(4)]), **arguments)


def test_superpixels_keep_to_the_borders_of_colours() -> None:
    pytest.importorskip("skimage")
    image = np.zeros((48, 48, 3), np.uint8)
    image[:, 24:] = (255, 80, 0)
    segments = superpixels(image, 20)
    assert segments.shape == (48, 48)
    assert sorted(np.unique(segments)) == list(range(segments.max() + 1))
    assert not set(segments[:, :24].ravel()) & set(segments[:, 24:].ravel())
    with pytest.raises(InvalidArgumentError, match="uint8"):
        superpixels(image.astype(float))
    with pytest.raises(InvalidArgumentError, match="count must be a positive integer, got 0"):
        superpixels(image, 0)
