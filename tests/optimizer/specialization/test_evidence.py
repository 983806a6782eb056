"""Conclusions from few answers, against scipy and plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.specialization import dominant_classes
from optimizer.specialization._evidence import contradicts, held_out_share, silence, upper_share

stats = pytest.importorskip("scipy.stats")


@pytest.mark.parametrize("expected", [0.0, 0.1, 0.55, 0.93, 1.0])
def test_contradictions_are_those_of_a_binomial_test(expected: float) -> None:
    for answers in range(9):
        for agreements in range(answers + 1):
            improbable = stats.binom.cdf(agreements, answers, expected) < 0.05
            assert contradicts(agreements, answers, expected) == improbable


def test_held_out_share_leaves_each_label_out() -> None:
    labels = np.random.default_rng(0).integers(12, size=40).tolist()
    for support in (2, 3, 5):
        hits = sum(
            label in dominant_classes(labels[:place] + labels[place + 1 :], support)
            for place, label in enumerate(labels)
        )
        assert held_out_share(labels, support) == hits / len(labels)


def test_chosen_classes_of_random_labels_have_no_share() -> None:
    labels = np.random.default_rng(0).integers(100, size=30).tolist()
    dominant = dominant_classes(labels, 2)
    assert sum(label in dominant for label in labels) >= 4  # chosen by the same labels
    assert held_out_share(labels, 2) == 0


def test_upper_share_covers_the_true_share() -> None:
    random = np.random.default_rng(0)
    covered = [upper_share((random.random(30) < 0.6).tolist()) >= 0.6 for _ in range(2000)]
    assert 0.92 <= np.mean(covered) <= 0.98


def test_silence_depends_on_the_share_before() -> None:
    often, rarely = [True] * 90, [True, False] * 45
    runs = [next(run for run in range(99) if silence([*before, *[False] * run])) for before in (often, rarely)]
    assert runs[0] == 3
    assert 10 <= runs[1] <= 16
    assert silence([*often, *[False] * 20, True]) == 0
    assert silence([]) == 0
