"""Phases of the algorithm, and the corrections of its printed text."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from optimizer.errors import InvalidArgumentError
from optimizer.specialization import (
    OTHER,
    CompactProfile,
    Confusion,
    ConfusionCurve,
    Expert,
    Policy,
    Segment,
    SpecializationState,
    WindowedGreedy,
    draw_labels,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from optimizer.specialization import Decision

CURVE = ConfusionCurve((1, 10), (Confusion(0.98, 0.01, 0.97), Confusion(0.95, 0.03, 0.95)))
POLICY = Policy(
    classes=200, accuracy=0.95, seconds=1.0, compacts=[CompactProfile("small", 0.1, CURVE)], training_frames=4
)
TWO = [3, 8]


def knows(label: int, expert: Expert) -> int:
    return label if label in expert.dominant else OTHER


def play(
    stream: WindowedGreedy, labels: Iterable[int], compact: Callable[[int, Expert], int] = knows
) -> list[Decision]:
    """Run a stream with an oracle that is always right."""
    decisions = []
    for label in labels:
        need = stream.need()
        answer = None if need.expert is None else compact(label, need.expert)
        asks = need.oracle or answer == OTHER
        decisions.append(stream.observe(label if asks else None, answer))
    return decisions


def specialized(policy: Policy = POLICY, labels: Iterable[int] = TWO * 10) -> WindowedGreedy:
    """Return a stream in the specialised phase for two classes."""
    stream = WindowedGreedy(policy)
    play(stream, labels)
    assert stream.state.phase == "specialized"
    return stream


def checked(stream: WindowedGreedy) -> list[int]:
    return [ahead for ahead in range(2000) if stream.need(ahead).oracle]


def test_phases_follow_each_other() -> None:
    phases = [decision.phase for decision in play(WindowedGreedy(POLICY), TWO * 15)]
    assert phases == ["explore"] * 6 + ["train"] * 4 + ["trial"] * 5 + ["specialized"] * 15


def test_labels_are_the_oracles_until_the_expert_answers() -> None:
    decisions = play(WindowedGreedy(POLICY), [*TWO * 10, 77])
    assert [decision.label for decision in decisions] == [*TWO * 10, 77]
    assert [decision.expert is None for decision in decisions] == [True] * 15 + [False] * 5 + [True]
    assert decisions[15].expert == Expert("small 1", 0, (3, 8), ((3, 0.5), (8, 0.5)))


def test_several_classes_need_the_whole_window() -> None:
    stream = WindowedGreedy(POLICY)
    labels = draw_labels([Segment(8, 0.9, 1)], classes=200, seed=0).tolist()
    phases = [decision.phase for decision in play(stream, labels)]
    assert phases.index("train") == POLICY.window
    assert stream.state.expert is not None
    assert len(stream.state.expert.dominant) >= 6


def test_training_takes_the_frames_that_the_oracle_answers_meanwhile() -> None:
    slow = replace(POLICY, training_frames=None, compacts=[CompactProfile("small", 0.1, CURVE, training_seconds=7.5)])
    phases = [decision.phase for decision in play(WindowedGreedy(slow), TWO * 15)]
    assert phases.count("train") == 8


def test_training_without_frames_begins_the_trial_at_once() -> None:
    phases = [decision.phase for decision in play(WindowedGreedy(replace(POLICY, training_frames=0)), TWO * 10)]
    assert "train" not in phases
    assert phases[6] == "trial"


def test_other_inputs_end_the_phase_and_begin_the_next_epoch() -> None:
    stream = specialized()
    decisions = play(stream, [50, 60] * 10)
    phases = [decision.phase for decision in decisions]
    assert [decision.label for decision in decisions] == [50, 60] * 10
    assert phases.index("explore") < 6
    assert phases.index("train") == 6  # labels of the silent frames count
    assert stream.state.expert is not None
    assert stream.state.expert.dominant == (50, 60)


# Corrections of Algorithm 5.1 ("Differences from the thesis" in docs/specialization.md). Each test fails for
# the printed algorithm.


def test_line_18_counts_errors_of_the_expert() -> None:
    stream = specialized(replace(POLICY, epsilon=0.2))
    decisions = play(stream, TWO * 60, lambda label, _: 11 - label)  # always answers the wrong one of 3 and 8
    assert "explore" in [decision.phase for decision in decisions]


def test_line_20_estimates_the_skew_from_the_answers_since() -> None:
    stream = specialized(replace(POLICY, margin=-0.5))
    labels = [8 if frame % 10 == 0 else 90 + frame % 90 for frame in range(200)]  # 10 % of the classes of the epoch
    assert "explore" in [decision.phase for decision in play(stream, labels)]


def test_line_21_ignores_a_single_error_among_many_answers() -> None:
    stream = specialized()
    first = checked(stream)[0]
    frames = iter(range(2000))
    decisions = play(stream, TWO * 500, lambda label, _: 11 - label if next(frames) == first else label)
    assert sum(stream.state.checks) <= 1
    assert decisions[first].label == TWO[first % 2]  # the oracle's answer counts
    assert {decision.phase for decision in decisions} == {"specialized"}


def test_line_21_divides_by_the_checked_answers() -> None:
    stream = specialized()
    first = checked(stream)[0]
    frames = iter(range(2000))
    phases = [
        decision.phase
        for decision in play(stream, TWO * 500, lambda label, _: 11 - label if next(frames) >= first else label)
    ]
    # A wrong answer is followed by two more checks: three errors of three checks, among many answers.
    assert phases[first + 2] == "specialized"
    assert phases[first + 3] == "explore"


def test_the_answers_after_a_wrong_one_are_checked() -> None:
    stream = specialized()
    first = checked(stream)[0]
    frames = iter(range(2000))
    play(stream, (TWO * 500)[: first + 1], lambda label, _: 11 - label if next(frames) == first else label)
    assert [stream.need(ahead).oracle for ahead in range(2)] == [True, True]
    play(stream, [TWO[(first + 1) % 2]])
    assert stream.state.burst == 1
    assert stream.state.checks == [True, False]


def test_more_checks_than_are_kept_by_default_may_be_required() -> None:
    stream = specialized(replace(POLICY, epsilon=0.2, least_checks=12))
    phases = [decision.phase for decision in play(stream, TWO * 60, lambda label, _: 11 - label)]
    assert phases.index("explore") >= 12


def test_random_inputs_are_not_specialised_because_of_their_cost() -> None:
    loose = replace(POLICY, margin=-0.05)
    labels = draw_labels([Segment(10, 0.05, 1)], classes=200, seed=0)
    curve = ConfusionCurve((1,), (Confusion(0.95, 0.02, 0.99),))
    rare = replace(loose, compacts=[CompactProfile("small", 0.1, curve)], window=100)
    printed = replace(rare, counts_cost=False)
    assert {decision.phase for decision in play(WindowedGreedy(rare), labels)} == {"explore"}
    assert "train" in {decision.phase for decision in play(WindowedGreedy(printed), labels)}


def test_a_compact_model_that_is_too_slow_is_not_used() -> None:
    slow = replace(POLICY, compacts=[CompactProfile("small", 0.95, CURVE)])
    assert {decision.phase for decision in play(WindowedGreedy(slow), TWO * 30)} == {"explore"}


def test_estimates_decide_which_compact_model_is_used() -> None:
    cheap, good = CompactProfile("cheap", 0.05, CURVE), CompactProfile("good", 0.2, CURVE)
    poor = CompactProfile("poor", 0.01, ConfusionCurve((1,), (Confusion(0.5, 0.1, 0.9),)))
    best = replace(POLICY, compacts=[good, poor, cheap]).best(2, 0.9)
    assert best is not None
    assert best.compact == 2  # the cheapest that keeps the accuracy
    assert replace(POLICY, compacts=[poor]).best(2, 0.9) is None


# Experts.


def test_recurring_scenes_recall_experts() -> None:
    stream = WindowedGreedy(POLICY)
    play(stream, (TWO * 30 + [50, 60] * 30) * 3)
    assert stream.state.trained == 2
    assert sorted(expert.dominant for expert in stream.state.experts) == [(3, 8), (50, 60)]


def test_recalled_experts_are_on_trial_after_few_frames() -> None:
    stream = WindowedGreedy(POLICY)
    play(stream, TWO * 30 + [50, 60] * 30)
    phases = [decision.phase for decision in play(stream, TWO * 15)]
    assert "train" not in phases
    assert phases.index("trial") == 6
    assert phases[11:] == ["specialized"] * 19


def test_the_least_recently_used_expert_is_evicted() -> None:
    stream = WindowedGreedy(replace(POLICY, experts=2))
    scenes = [[3, 8], [50, 60], [3, 8], [70, 80]]
    play(stream, [label for scene in scenes for label in scene * 30])
    assert [expert.dominant for expert in stream.state.experts] == [(3, 8), (70, 80)]
    assert stream.state.trained == 3
    play(stream, [50, 60] * 30)
    assert stream.state.trained == 4


def test_without_experts_each_scene_trains() -> None:
    stream = WindowedGreedy(replace(POLICY, experts=0))
    play(stream, (TWO * 30 + [50, 60] * 30) * 2)
    assert stream.state.trained == 4
    assert stream.state.experts == []


def test_more_classes_are_trained_when_the_frames_have_doubled() -> None:
    stream = specialized(labels=[3, 3, 3, 8] * 5)
    labels = [3, 8, 20, 3, 8, 30] * 100  # a third of the inputs is in two other classes
    decisions = play(stream, labels)
    assert stream.state.trained == 2
    assert stream.state.expert is not None
    assert stream.state.expert.dominant == (3, 8, 20, 30)
    assert [decision.phase for decision in decisions[-300:]] == ["specialized"] * 300
    unrefined = specialized(replace(POLICY, refines=False), labels=[3, 3, 3, 8] * 5)
    play(unrefined, labels)
    assert unrefined.state.trained == 1


# Training that fails or does not pay.


def test_after_a_failed_training_the_oracle_continues() -> None:
    stream = WindowedGreedy(POLICY)
    play(stream, TWO * 4)
    assert stream.state.phase == "train"
    stream.fail_training()
    assert stream.need() == (None, True)
    assert stream.state.experts == []
    decisions = play(stream, TWO * 4)
    assert [decision.label for decision in decisions] == TWO * 4


def test_failing_training_backs_off_exponentially() -> None:
    stream, begins = WindowedGreedy(POLICY), []
    for frame in range(1000):
        play(stream, [TWO[frame % 2]])
        if stream.state.phase == "train":
            begins.append(frame)
            stream.fail_training()
    gaps = np.diff(begins)
    assert len(begins) <= 8
    assert all(later >= 1.5 * earlier for earlier, later in pairwise(gaps[1:]))


def test_failed_training_without_an_expert_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="phase must be"):
        WindowedGreedy(POLICY).fail_training()


def test_a_trial_refuses_experts_that_contradict_the_oracle() -> None:
    stream = WindowedGreedy(POLICY)
    phases = [decision.phase for decision in play(stream, TWO * 30, lambda label, _: 11 - label)]
    assert "specialized" not in phases
    assert phases.count("trial") >= 5


@pytest.mark.parametrize("fixed", [OTHER, 3])
def test_compact_models_that_never_or_always_answer_are_not_used(fixed: int) -> None:
    stream = WindowedGreedy(POLICY)
    labels = draw_labels([Segment(5, 0.9, 2)], classes=200, seed=0).tolist()
    decisions = play(stream, labels, lambda label, expert: fixed if fixed == OTHER else expert.dominant[0])
    assert [decision.label for decision in decisions] == labels
    assert "specialized" not in {decision.phase for decision in decisions}


def test_training_that_never_pays_is_not_begun() -> None:
    expensive = replace(POLICY, compacts=[CompactProfile("small", 0.1, CURVE, training_seconds=1000)])
    stream = WindowedGreedy(expensive)
    play(stream, TWO * 500)
    assert stream.state.trained == 0
    play(stream, TWO * 100)  # stable for more than 1000 frames
    assert stream.state.trained == 1
    ignoring = WindowedGreedy(replace(expensive, counts_cost=False))
    play(ignoring, TWO * 10)
    assert ignoring.state.trained == 1


def test_useless_training_is_not_repeated_soon() -> None:
    costly = replace(POLICY, compacts=[CompactProfile("small", 0.1, CURVE, training_seconds=40)])
    free = POLICY
    trained = []
    for policy in (costly, free):
        stream = WindowedGreedy(policy)
        play(stream, [10 * scene + frame % 2 for scene in range(20) for frame in range(25)])
        trained.append(stream.state.trained)
    assert trained[0] <= 4
    assert trained[1] == 20


# Unusual streams and oracles.


def test_streams_of_a_single_class() -> None:
    decisions = play(WindowedGreedy(POLICY), [5] * 100)
    assert {decision.label for decision in decisions} == {5}
    assert [decision.phase for decision in decisions].count("specialized") == 85


def test_a_stream_without_frames_has_its_first_need() -> None:
    stream = WindowedGreedy(POLICY)
    assert stream.need() == (None, True)
    assert SpecializationState.from_json(stream.state.to_json()) == SpecializationState()


def test_more_dominant_classes_than_half_of_the_window() -> None:
    wide = replace(POLICY, classes=40, window=30, margin=-0.5)
    stream = WindowedGreedy(wide)
    labels = [label for start in range(10) for label in range(start, start + 16)] * 3
    assert {decision.phase for decision in play(stream, labels)} == {"explore"}


def test_an_oracle_that_is_often_wrong_still_specialises() -> None:
    curve = ConfusionCurve((1, 10), (Confusion(0.85, 0.05, 0.92), Confusion(0.6, 0.1, 0.87)))
    compacts = [CompactProfile("small", 0.1, curve)]
    policy = replace(POLICY, accuracy=0.55, compacts=compacts, window=60, epsilon=0.2)
    random = np.random.default_rng(0)
    stream, phases = WindowedGreedy(policy), []
    for truth in draw_labels([Segment(3, 0.95, 5)], classes=200, seed=0).tolist():
        need = stream.need()
        oracle = truth if random.random() < 0.55 else int(random.integers(200))
        compact = None if need.expert is None else knows(truth, need.expert)
        asks = need.oracle or compact == OTHER
        phases.append(stream.observe(oracle if asks else None, compact).phase)
    # The errors of the oracle do not count against the expert.
    assert phases.count("specialized") > 1600
    assert sum(a != b == "specialized" for a, b in pairwise(phases)) <= 4


def test_the_simple_exit_leaves_earlier() -> None:
    labels = draw_labels([Segment(5, 0.9, 5)], classes=200, seed=0).tolist()
    transitions = []
    for kind in ("estimate", "skew"):
        phases = [decision.phase for decision in play(WindowedGreedy(replace(POLICY, exit=kind)), labels)]
        transitions.append(sum(a != b == "specialized" for a, b in pairwise(phases)))
    assert transitions[0] < transitions[1]


@pytest.mark.parametrize(("oracle", "compact"), [(None, None), (None, 3), (None, OTHER)])
def test_missing_answers_are_refused(oracle: int | None, compact: int | None) -> None:
    stream = WindowedGreedy(POLICY)
    with pytest.raises(InvalidArgumentError, match="observe must have"):
        stream.observe(oracle, compact)
    later = specialized()
    with pytest.raises(InvalidArgumentError, match="observe must have"):
        later.observe(None, OTHER)
    with pytest.raises(InvalidArgumentError, match="observe must have"):
        later.observe(3, None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"compacts": []}, "compacts must have"),
        ({"accuracy": 0.0}, "accuracy must be"),
        ({"window": 301}, "window must be at most 300"),
        ({"exit": "never"}, "exit must be"),
        ({"trial_frames": 0}, "trial_frames must be"),
        ({"experts": -1}, "experts must be"),
    ],
)
def test_invalid_settings_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        replace(POLICY, **change)  # type: ignore[arg-type]
