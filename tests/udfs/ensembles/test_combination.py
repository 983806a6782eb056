"""Combination of members with different outputs, against scikit-learn and plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import metrics as reference

from optimizer.errors import InvalidArgumentError
from udfs.ensembles import Combination
from udfs.training import LossFacts, Task


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softmax(x: Any) -> Any:
    powers = np.exp(x)
    return powers / powers.sum(axis=1, keepdims=True)


def mean(combination: Combination, members: list[tuple[Task, Any]]) -> Any:
    return sum(combination.scores(task, outputs, len(members)) for task, outputs in members) / len(members)


def test_one_logit_and_two_log_probabilities_have_a_mean_probability() -> None:
    draw = np.random.default_rng(0)
    logit, pair = draw.normal(size=(50, 1)), draw.normal(size=(50, 2))
    labels = (draw.random(50) < 0.5).astype(np.int64)
    one, two = Task("binary", "0/1", "logits", 1), Task("binary", "class index", "log-probabilities", 2)
    combination = Combination.from_tasks([one, two], "mean")
    scores = mean(combination, [(one, logit), (two, np.log(softmax(pair)))])
    expected = (sigmoid(logit[:, 0]) + softmax(pair)[:, 1]) / 2
    np.testing.assert_allclose(scores[:, 1], expected)
    np.testing.assert_allclose(scores.sum(axis=1), 1.0)
    assert combination.predictions(scores).tolist() == (expected > 0.5).astype(float).tolist()
    for name, value in (
        ("accuracy", reference.accuracy_score(labels, expected > 0.5)),
        ("auc", reference.roc_auc_score(labels, expected)),
        ("recall_macro", reference.balanced_accuracy_score(labels, expected > 0.5)),
        ("log_loss", reference.log_loss(labels, scores)),
    ):
        assert combination.evaluate(name, scores, labels) == pytest.approx(value), name
    weights = draw.random(50).astype(np.float32) + 0.1
    weighted = reference.log_loss(labels, scores, sample_weight=weights)
    assert combination.evaluate("log_loss", scores, labels, weights) == pytest.approx(weighted)


def test_votes_decide_and_equal_votes_go_to_the_mean_probability() -> None:
    task = Task("multiclass", "class index", "probabilities", 3)
    rows = [
        # Two votes for class 1 beat a certain vote for class 0.
        ([1.0, 0.0, 0.0], [0.3, 0.4, 0.3], [0.3, 0.4, 0.3], 1),
        # One vote each: class 2 has the largest mean probability.
        ([0.5, 0.1, 0.4], [0.1, 0.5, 0.4], [0.0, 0.2, 0.8], 2),
    ]
    combination = Combination.from_tasks([task] * 3, "majority")
    members = [(task, np.array([row[number] for row in rows])) for number in range(3)]
    assert combination.predictions(mean(combination, members)).tolist() == [row[3] for row in rows]
    votes = sum(combination.votes(*member) for member in members)
    assert votes.tolist() == [[1, 2, 0], [1, 1, 1]]


def test_labels_of_minus_one_and_one() -> None:
    task = Task("binary", "-1/+1", "margins", 1)
    outputs = [np.array([[2.0], [-0.1], [0.3]]), np.array([[0.1], [-3.0], [-0.1]]), np.array([[-9.0], [0.1], [-0.2]])]
    combination = Combination.from_tasks([task] * 3, "majority")
    assert combination.predictions(mean(combination, [(task, each) for each in outputs])).tolist() == [1, -1, -1]
    with pytest.raises(InvalidArgumentError, match="vote must be 'majority' for members whose outputs are margins"):
        Combination.from_tasks([task] * 3, "mean")


def test_several_labels_of_a_row() -> None:
    task = Task("multilabel", "multi-hot", "logits", 2)
    outputs = [np.array([[1.0, -1.0]]), np.array([[2.0, -4.0]]), np.array([[-9.0, 0.5]])]
    members = [(task, each) for each in outputs]
    by_votes, by_mean = (Combination.from_tasks([task], vote) for vote in ("majority", "mean"))
    assert by_votes.predictions(mean(by_votes, members)).tolist() == [[1.0, 0.0]]
    chances = np.mean([sigmoid(each) for each in outputs], axis=0)
    np.testing.assert_allclose(mean(by_mean, members), chances)
    assert by_mean.predictions(chances).tolist() == (chances > 0.5).astype(float).tolist()


def test_values_and_logarithms_of_values_have_a_mean() -> None:
    plain, logarithm = Task("regression", "values", "values", 1), Task("regression", "values", "log-values", 1)
    combination = Combination.from_tasks([plain, logarithm], "mean")
    scores = mean(combination, [(plain, np.array([[2.0]])), (logarithm, np.log([[4.0]]))])
    assert combination.predictions(scores) == pytest.approx([3.0])
    assert combination.evaluate("mse", scores, np.array([1.0])) == pytest.approx(4.0)
    with pytest.raises(InvalidArgumentError, match="vote must be 'mean' or 'weighted' for values"):
        Combination.from_tasks([plain], "majority")


def test_members_with_different_classes_are_refused() -> None:
    three, two = (Task("multiclass", "class index", "logits", count) for count in (3, 2))
    with pytest.raises(InvalidArgumentError, match="members must predict the same classes"):
        Combination.from_tasks([three, two], "mean")
    signs = Task("binary", "-1/+1", "logits", 1)
    with pytest.raises(InvalidArgumentError, match="members must predict the same classes"):
        Combination.from_tasks([signs, Task("binary", "0/1", "logits", 1)], "mean")
    for task in (Task("custom"), Task("multiclass", "class index", "logits", 3, tokens=4)):
        with pytest.raises(InvalidArgumentError, match="members must predict classes, labels or values of rows"):
            Combination.from_tasks([task], "mean")


def test_rows_that_the_loss_ignores_do_not_count() -> None:
    task = Task("multiclass", "class index", "probabilities", 3)
    combination = Combination.from_tasks([task], "mean")
    scores, labels = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [1 / 3] * 3]), np.array([0, 2, -100])
    facts = LossFacts("loss", ignored=-100)
    assert combination.evaluate("accuracy", scores, labels, None, facts) == 0.5
    assert combination.evaluate("log_loss", scores, labels, None, facts) == pytest.approx(-np.log(0.8 * 0.1) / 2)
    assert np.isnan(combination.evaluate("log_loss", scores, labels, np.zeros(3, np.float32), facts))
