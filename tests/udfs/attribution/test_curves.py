from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from optimizer.errors import InvalidArgumentError
from udfs.attribution import ScoredInputs, deletion, insertion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

WEIGHTS = np.array([3.0, -1.0, 0.5, 2.0, -4.0])
ROW, BASELINE = np.array([1.0, 2.0, -1.0, 0.5, 1.0]), np.full(5, 0.25)


def linear(batches: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return batches[0] @ WEIGHTS


def test_the_effects_of_a_linear_score_are_the_best_order_of_all() -> None:
    areas = {
        order: (
            deletion(ScoredInputs(linear, [ROW]), [BASELINE], -np.array(order, float)).area,
            insertion(ScoredInputs(linear, [ROW]), [BASELINE], -np.array(order, float)).area,
        )
        for order in permutations(range(5))
    }
    effects = WEIGHTS * (ROW - BASELINE)
    np.testing.assert_allclose(
        deletion(ScoredInputs(linear, [ROW]), [BASELINE], effects).area, min(area for area, _ in areas.values())
    )
    np.testing.assert_allclose(
        insertion(ScoredInputs(linear, [ROW]), [BASELINE], effects).area, max(area for _, area in areas.values())
    )
    assert deletion(ScoredInputs(linear, [ROW]), [BASELINE], -effects).area == max(area for area, _ in areas.values())


def test_a_curve_goes_from_the_input_to_the_baseline_and_back() -> None:
    fall, rise = (curve(ScoredInputs(linear, [ROW]), [BASELINE], WEIGHTS * ROW) for curve in (deletion, insertion))
    np.testing.assert_allclose([fall.scores[0], fall.scores[-1]], linear([np.stack([ROW, BASELINE])]))
    np.testing.assert_allclose([rise.scores[-1], rise.scores[0]], linear([np.stack([ROW, BASELINE])]))
    assert fall.fractions.tolist() == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert "lower is better" in fall.explain()
    assert "higher is better" in rise.explain()


def test_a_pixel_is_taken_away_with_all_its_channels_and_stays_without_a_value() -> None:
    image = np.ones((3, 2, 2))
    asked: list[NDArray[Any]] = []

    def score(batches: Sequence[NDArray[Any]]) -> NDArray[Any]:
        asked.append(batches[0].copy())
        return batches[0].sum(axis=(1, 2, 3))

    values = np.array([[np.nan, -1.0], [0.5, 2.0]])
    fall = deletion(ScoredInputs(score, [image], 2), [np.zeros((3, 2, 2))], values)
    steps = np.concatenate(asked)
    assert (steps == steps[:, :1]).all()
    assert [step[0].tolist() for step in steps[1:]] == [[[1, 1], [1, 0]], [[1, 1], [0, 0]], [[1, 0], [0, 0]]]
    assert fall.scores.tolist() == [12, 9, 6, 3]
    assert insertion(ScoredInputs(score, [image]), [np.zeros((3, 2, 2))], values).scores.tolist() == [3, 6, 9, 12]


def test_inputs_change_together_or_stay() -> None:
    inputs = [np.array([1.0, 2.0]), np.array([10.0, 20.0]), np.array([100.0])]
    scored = ScoredInputs(lambda batches: np.sum([batch.sum(axis=1) for batch in batches], axis=0), inputs)
    curve = deletion(scored, [np.zeros(2), np.zeros(2), None], np.array([0.0, 1.0]))
    assert curve.scores.tolist() == [133, 111, 100]


def test_steps_divide_the_elements_evenly() -> None:
    curve = deletion(
        ScoredInputs(lambda batches: batches[0].mean(axis=1), [np.ones(10)]), [np.zeros(10)], np.arange(10.0), steps=4
    )
    np.testing.assert_allclose(curve.fractions, [0, 0.2, 0.5, 0.8, 1])
    np.testing.assert_allclose(curve.area, 0.5)


@pytest.mark.parametrize(
    ("values", "baseline", "arguments", "message"),
    [
        (np.zeros(4), BASELINE, {}, "values must broadcast"),
        (np.zeros(5), np.zeros(4), {}, "baseline"),
        (np.full(5, np.nan), BASELINE, {}, "got only NaN"),
        (np.zeros(5), BASELINE, {"steps": 0}, "steps must be a positive integer, got 0"),
    ],
)
def test_bad_arguments_are_refused(values: Any, baseline: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        deletion(ScoredInputs(linear, [ROW]), [baseline], values, **arguments)
