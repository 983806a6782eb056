"""Thresholds of cascades: order and cost, rows that the oracle is asked, and targets that cannot be met."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optimizer.cascades import (
    NO_ANSWER,
    UNKNOWN,
    Calibration,
    Certificate,
    Question,
    calibrate,
    cost_per_row,
    proxy_answers,
    route,
    shares,
)
from optimizer.errors import InvalidArgumentError


class Oracle:
    def __init__(self, truth: Any) -> None:
        self.truth, self.asked = truth, []

    def __call__(self, rows: Any) -> Any:
        self.asked.extend(rows.tolist())
        return self.truth[rows]


def scene(rows: int, error: float, *, seed: int = 0, proxies: int = 1) -> tuple[Oracle, Any, Any]:
    """Draw proxies that are right where they are confident, and wrong for `error` of the other rows."""
    draw = np.random.default_rng(seed)
    truth = draw.integers(2, size=rows)
    confidence = draw.uniform(0.5, 1.0, (proxies, rows))
    wrong = (confidence < 0.75) & (draw.uniform(size=(proxies, rows)) < error)
    return Oracle(truth), np.where(wrong, 1 - truth, truth), confidence


def run(oracle: Oracle, answers: Any, confidence: Any, question: Question, costs: Any = (1, 20), **options: Any) -> Any:
    return calibrate(question, answers, confidence, oracle, lambda: np.array(costs, np.float64), **options)


def test_the_threshold_is_where_errors_begin() -> None:
    oracle, answers, confidence = scene(4000, 0.4)
    result = run(oracle, answers, confidence, Question(0.98))
    # Errors of 2 % of rows are 10 % of the rows below 0.75.
    assert 0.68 < result.thresholds[0] < 0.76
    assert 0.98 <= result.estimate < 1
    assert len(set(oracle.asked)) == len(oracle.asked) < 4000
    assert (confidence[0, oracle.asked] >= 0.5).all()
    assert (result.oracle == UNKNOWN).sum() == 4000 - len(oracle.asked)


def test_a_perfect_proxy_needs_few_calls() -> None:
    oracle, answers, confidence = scene(20_000, 0.0)
    result = run(oracle, answers, confidence, Question(0.98))
    assert route(confidence, result.thresholds).max() == 0
    assert len(oracle.asked) < 1000


def test_the_cheaper_of_two_equal_proxies_runs_alone() -> None:
    oracle, answers, confidence = scene(4000, 0.4)
    twice = np.repeat(answers, 2, axis=0), np.repeat(confidence, 2, axis=0)
    result = run(oracle, *twice, Question(0.98), costs=(1, 5, 20))
    assert np.isfinite(result.thresholds).tolist() == [True, False]


def test_two_proxies_that_know_different_rows_both_run() -> None:
    draw = np.random.default_rng(5)
    truth = draw.integers(2, size=6000)
    easy = draw.integers(3, size=6000)
    confidence = np.stack([np.where(easy == 0, 0.99, 0.5), np.where(easy == 1, 0.99, 0.5)])
    answers = np.where(confidence > 0.9, truth, 1 - truth)
    result = run(Oracle(truth), answers, confidence, Question(0.95), costs=(1, 2, 50))
    assert np.isfinite(result.thresholds).all()
    np.testing.assert_allclose(shares(route(confidence, result.thresholds), 3), 1 / 3, atol=0.03)


@pytest.mark.parametrize(
    ("error", "rows", "options", "reason"),
    [
        (1.0, 100, {}, "the sample has 100 rows"),
        (0.4, 4000, {"costs": (30, 20)}, "the thresholds that reach the target save no cost"),
        (0.4, 4000, {"most": 10}, "the thresholds that reach the target save no cost"),
    ],
)
def test_the_oracle_answers_all_rows_for_a_reason(error: float, rows: int, options: Any, reason: str) -> None:
    result = run(*scene(rows, error), Question(0.98), **options)
    assert np.isinf(result.thresholds).all()
    assert result.estimate == 1
    assert reason in result.reason


def test_a_proxy_that_is_always_wrong_is_not_used() -> None:
    oracle, answers, confidence = scene(3000, 0.0)
    result = run(oracle, 1 - answers, confidence, Question(0.98))
    assert result.reason == "the thresholds that reach the target save no cost"
    assert len(oracle.asked) < 3000


@pytest.mark.parametrize("value", [0.5, 1.0])
def test_a_proxy_of_one_confidence_answers_all_or_no_rows(value: float) -> None:
    for error, covered in ((0.0, 0), (1.0, 1)):
        oracle, answers, confidence = scene(2000, error)
        result = run(oracle, answers, np.full_like(confidence, value), Question(0.9))
        assert set(route(np.full_like(confidence, value), result.thresholds)) == {covered}


def test_one_class_and_rare_positives_are_reported() -> None:
    oracle, answers, confidence = scene(2000, 0.0)
    oracle.truth = np.zeros(2000, np.int64)
    result = run(oracle, np.zeros_like(answers), confidence, Question(0.9, metric="recall"))
    assert result.reason == (
        "the oracle finds 0 positive rows in the sample, and a recall of 0.9 at delta 0.05 takes at least 29"
    )


def test_rows_without_answers_are_left_out() -> None:
    oracle, answers, confidence = scene(3000, 0.0)
    confidence[:, :500] = -np.inf
    answers[:, :500] = UNKNOWN
    oracle.truth[500:700] = NO_ANSWER
    result = run(oracle, answers, confidence, Question(0.98))
    assert not result.reason
    assert not set(oracle.asked) & set(range(500))


def test_models_that_answer_no_row_are_reported() -> None:
    oracle, answers, confidence = scene(2000, 0.0)
    nothing = run(oracle, np.full_like(answers, UNKNOWN), np.full_like(confidence, -np.inf), Question(0.9))
    assert (nothing.reason, oracle.asked) == ("the proxies answer no row of the sample", [])
    oracle.truth = np.full(2000, NO_ANSWER)
    for metric in ("accuracy", "precision", "recall"):
        result = run(oracle, answers, confidence, Question(0.9, metric=metric))
        assert np.isinf(result.thresholds).all(), "no contradiction is no agreement"
        assert result.reason.startswith("the oracle answers none of the ")


def test_the_guarantee_holds_where_the_oracle_does_not_answer_the_unsure_rows() -> None:
    """Such rows are asked only where proxies answer, and count as agreement there as elsewhere."""
    rows, accuracies, differences = 4000, [], []
    for seed in range(40):
        draw = np.random.default_rng(seed)
        truth, confidence = draw.integers(2, size=rows), draw.uniform(size=(1, rows))
        answers = np.where(draw.uniform(size=rows) < 0.85, truth, 1 - truth)
        silent = (confidence[0] < 0.5) & (draw.uniform(size=rows) < 0.6)
        oracle = Oracle(np.where(silent, NO_ANSWER, truth)[:3000])
        result = run(oracle, answers[None, :3000], confidence[:, :3000], Question(0.9), seed=seed)
        # The share of contradictions, as a proxy makes 0.15 of them in rows that the oracle answers.
        threshold = min(result.thresholds[0], 1.0)
        accuracy = 1 - 0.15 * (1 - max(threshold, 0.5) + 0.4 * max(0.5 - threshold, 0.0))
        accuracies.append(accuracy)
        differences.append(result.estimate - accuracy)
    assert np.mean(np.array(accuracies) < 0.9) <= 0.1, "delta is 0.05"
    assert np.mean(accuracies) < 0.917, "without these rows the thresholds are more cautious than they need to be"
    assert np.mean(differences) == pytest.approx(0, abs=0.004)


def test_costs_count_used_proxies_on_the_rows_that_reach_them() -> None:
    thresholds = np.array([0.9, np.inf, 0.8])
    confidence = np.array([[0.95, 0.1, 0.1, 0.1], [1, 1, 1, 1], [0.1, 0.9, 0.1, 0.1]])
    routes = route(confidence, thresholds)
    assert routes.tolist() == [0, 2, 3, 3]
    assert cost_per_row(routes, thresholds, np.array([1, 100, 4, 8.0])) == 1 + 4 * 3 / 4 + 8 / 2


def test_answers_follow_the_metric() -> None:
    scores = np.array([[0.75, 0.25], [0.25, 0.75], [np.nan, np.nan]])
    expected = {
        "accuracy": ([0, 1], [0.75, 0.75]),
        "precision": ([1, 1], [0.25, 0.75]),
        "recall": ([0, 0], [0.75, 0.25]),
    }
    for metric, (classes, confidence) in expected.items():
        answers, confident = proxy_answers(scores, metric, 1)
        assert answers.tolist() == [*classes, UNKNOWN]
        assert confident.tolist() == [*confidence, -np.inf]


@pytest.mark.parametrize(("field", "value"), [("target", 1.0), ("delta", 0.0), ("metric", "f1")])
def test_questions_are_checked(field: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{field} must be"):
        Question(**{"target": 0.9} | {field: value})


def test_a_certificate_explains_an_oracle_alone() -> None:
    certificate = Certificate(
        "recall", 0.9, 0.05, 1.0, 1.0, ("proxy 1", "oracle"), (None, None), (0.0, 1.0), (1.0, 2.0), 10, 10, "too small"
    )
    assert certificate.explain().startswith("The oracle answers all rows: too small\n")
    assert (certificate.speedup, certificate.seconds_per_row, certificate.is_met) == (1.0, 2.0, False)
    assert isinstance(certificate._repr_html_(), str)
    assert isinstance(Calibration(np.zeros(0), np.zeros(0, np.int64), 1.0, ""), Calibration)
