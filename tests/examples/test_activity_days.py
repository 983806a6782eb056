"""Scores of the case study, against scikit-learn, scipy and counts by hand."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from places import EXAMPLES
from scipy.stats import ks_2samp
from sklearn.metrics import accuracy_score, balanced_accuracy_score

if TYPE_CHECKING:
    from types import ModuleType


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module("activity_days")


def states(*runs: int) -> np.ndarray:
    """States of bouts of these lengths, rest first."""
    return np.concatenate([np.full(length, (place + 1) % 2) for place, length in enumerate(runs)])


def test_scores_are_those_of_other_libraries(study: ModuleType) -> None:
    truth = {"ann": states(12, 6, 6, 12), "bob": states(24, 12)}
    predicted = {"ann": states(12, 4, 8, 12), "bob": states(2, 1, 15, 18)}
    scores = study.score_days({name: (truth[name], predicted[name]) for name in truth})
    minutes = [np.concatenate([day[name][::6] for name in truth]) for day in (truth, predicted)]
    # bob's first minute has rest in five of six epochs, and his fourth none.
    assert scores["minute accuracy"] == pytest.approx(accuracy_score(*minutes))
    assert scores["balanced accuracy"] == pytest.approx(balanced_accuracy_score(*minutes))
    # True transitions: ann 12 and 24, bob 24; predicted: ann 12 and 24, bob 2 and 18, of which 18 is a minute away.
    assert scores["transition sensitivity"] == 1.0
    assert scores["transition predictive value"] == 3 / 4
    assert scores["mean rest bout"] == pytest.approx(np.mean([12, 8, 2, 15]) / 6)
    assert scores["true mean rest bout"] == pytest.approx(np.mean([12, 6, 24]) / 6)
    assert scores["KS distance, rest"] == ks_2samp([12, 6, 24], [12, 8, 2, 15]).statistic
    assert scores["KS distance, activity"] == ks_2samp([6, 12, 12], [4, 12, 1, 18]).statistic


def test_a_transition_is_matched_once(study: ModuleType) -> None:
    days = {"ann": (states(10, 30), states(8, 1, 1, 30))}
    scores = study.score_days(days)
    assert (scores["transition sensitivity"], scores["transition predictive value"]) == (1.0, 0.5)
    assert study.score_days(days, tolerance=0)["transition sensitivity"] == 1.0
    far = study.score_days({"ann": (states(10, 30), states(17, 23))})
    assert (far["transition sensitivity"], far["transition predictive value"]) == (0.0, 0.0)


def test_days_are_whole_recordings_of_the_pool(study: ModuleType) -> None:
    draw = np.random.default_rng(0)
    signals = draw.normal(size=(8, 6, 100))
    motions = pd.DataFrame({"signal": [list(map(list, signal)) for signal in signals], "label": [0, 1, 2, 3] * 2})
    rows, epochs = study.chain_days(motions, ["ann", "bob"], minutes=5, seed=1)
    assert len(rows) == 2 * 5 * 600
    assert len(epochs) == 2 * 5 * 6
    values = rows[list(study.CHANNELS)].to_numpy().reshape(-1, 100, 3)
    for day, activity in zip(values, epochs["activity"], strict=True):
        (place,) = [place for place, signal in enumerate(signals) if np.array_equal(signal[:3].T, day)]
        assert place % 4 == activity
    assert (rows["rest"].to_numpy().reshape(-1, 100) == epochs["rest"].to_numpy()[:, None]).all()
    assert rows.groupby("subject")["time"].apply(lambda time: np.allclose(np.diff(time), 0.1)).all()
    again, _ = study.chain_days(motions, ["ann", "bob"], minutes=5, seed=1)
    pd.testing.assert_frame_equal(rows, again)
    assert study.ACTIVITIES[2] == "Standing"
