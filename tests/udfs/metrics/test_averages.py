"""Averages over classes and labels are those of scikit-learn, over shards too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import metrics as reference

from udfs.metrics import MetricError, fitting_metrics, merge_sums, task_metric

ROWS = 60
AVERAGES = ("macro", "micro", "weighted")
PAIRS = {"f1": reference.f1_score, "precision": reference.precision_score, "recall": reference.recall_score}


def over_shards(metric: Any, *arrays: Any) -> float:
    total: dict[str, Any] = {}
    function = metric.part if len(arrays) == 2 else metric.weighted
    for start, end in ((0, 7), (7, 8), (8, ROWS)):
        total = merge_sums(total, {"it": function(*(array[start:end] for array in arrays))})
    return float(metric.result(total["it"]))


def weights_of(arrays: tuple[Any, ...]) -> Any:
    return arrays[2] if len(arrays) > 2 else None


def drawn(*shape: int, weighted: bool) -> tuple[Any, Any]:
    random = np.random.default_rng(3)
    scores = random.normal(size=shape)
    return scores, (random.uniform(0.5, 3, shape[0]),) if weighted else ()


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("name", PAIRS)
def test_classes(name: str, average: str, weighted: bool) -> None:
    """Class 3 is neither in the labels nor in the predictions: a macro average has three classes."""
    scores, weights = drawn(ROWS, 4, weighted=weighted)
    scores[:, 3] = -9
    truth = np.random.default_rng(4).choice(3, ROWS, p=[0.7, 0.2, 0.1])
    arrays = (scores, truth, *weights)
    expected = PAIRS[name](
        truth, scores.argmax(axis=1), average=average, zero_division=0, sample_weight=weights_of(arrays)
    )
    assert over_shards(task_metric(f"{name}_{average}", "multiclass", 4), *arrays) == pytest.approx(expected)
    if average == "macro":
        assert over_shards(task_metric(name, "multiclass", 4), *arrays) == pytest.approx(expected)


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("name", PAIRS)
def test_labels(name: str, average: str, weighted: bool) -> None:
    """No row has the last label, and none is said to: it counts in a macro average, as 0."""
    scores, weights = drawn(ROWS, 3, weighted=weighted)
    truth = (np.random.default_rng(5).normal(size=(ROWS, 3)) > 0.4).astype(np.int64)
    scores[:, 2], truth[:, 2] = -1, 0
    arrays = (scores, truth, *weights)
    expected = PAIRS[name](truth, scores > 0, average=average, zero_division=0, sample_weight=weights_of(arrays))
    assert over_shards(task_metric(f"{name}_{average}", "multilabel", 3), *arrays) == pytest.approx(expected)
    if average == "macro":
        assert over_shards(task_metric(name, "multilabel", 3), *arrays) == pytest.approx(expected)


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
def test_labels_are_right_row_by_row(weighted: bool) -> None:
    scores, weights = drawn(ROWS, 3, weighted=weighted)
    truth = (scores + np.random.default_rng(5).normal(size=(ROWS, 3)) > 0).astype(np.int64)
    arrays = (scores, truth, *weights)
    expected = reference.accuracy_score(truth, scores > 0, sample_weight=weights_of(arrays))
    assert over_shards(task_metric("accuracy", "multilabel", 3), *arrays) == pytest.approx(expected)


@pytest.mark.parametrize("weighted", [False, True], ids=["alike", "weighted"])
@pytest.mark.parametrize("average", AVERAGES)
def test_areas(average: str, weighted: bool) -> None:
    scores, weights = drawn(ROWS, 3, weighted=weighted)
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    truth = np.random.default_rng(6).integers(0, 3, ROWS)
    arrays = (chances, truth, *weights)
    if not (average == "micro" and weighted):  # scikit-learn repeats no weights
        expected = reference.roc_auc_score(
            truth, chances, average=average, multi_class="ovr", sample_weight=weights_of(arrays)
        )
        assert over_shards(task_metric(f"auc_{average}", "multiclass", 3), *arrays) == pytest.approx(expected)
    several = (np.random.default_rng(7).normal(size=(ROWS, 3)) > 0.4).astype(np.int64)
    if not (average == "micro" and weighted):
        expected = reference.roc_auc_score(several, scores, average=average, sample_weight=weights_of(arrays))
        found = over_shards(task_metric(f"auc_{average}", "multilabel", 3), scores, several, *weights)
        assert found == pytest.approx(expected)


@pytest.mark.parametrize("average", AVERAGES)
def test_two_classes_of_one_output(average: str) -> None:
    scores, _ = drawn(ROWS, 1, weighted=False)
    truth = np.random.default_rng(8).integers(0, 2, ROWS)
    expected = reference.f1_score(truth, scores[:, 0] > 0, average=average)
    assert over_shards(task_metric(f"f1_{average}", "binary", 1), scores, truth) == pytest.approx(expected)
    assert task_metric("f1", "binary", 1).name == "f1"


@pytest.mark.parametrize(
    ("name", "kind", "outputs", "fits"),
    [
        ("mse", "multiclass", 3, "accuracy.*f1_macro"),
        ("accuracy", "regression", 1, "mse, rmse, mae"),
        ("f1_micro", "regression", 1, "mse, rmse, mae"),
        ("top_5_accuracy", "binary", 2, "accuracy, precision"),
        ("top_5_accuracy", "multiclass", 5, "accuracy, precision"),
        ("token_accuracy", "multiclass", 3, "accuracy"),
        ("accuracy", "custom", 3, "that fit: none; a function"),
        ("mae", "multilabel", 3, "accuracy"),
    ],
)
def test_a_metric_that_does_not_fit_is_refused(name: str, kind: str, outputs: int, fits: str) -> None:
    with pytest.raises(MetricError, match=rf"must fit the {kind} task with {outputs} outputs?, got '{name}'.*{fits}"):
        task_metric(name, kind, outputs)
    assert name not in fitting_metrics(kind, outputs)


def test_a_tagger_has_metrics_of_tokens() -> None:
    with pytest.raises(MetricError, match=r"multiclass task of tokens, got 'accuracy'.*token_accuracy, entity_f1"):
        task_metric("accuracy", "multiclass", 3, tokens=True)


def test_a_class_that_the_network_does_not_know() -> None:
    with pytest.raises(MetricError, match="labels must be classes from 0 to 2, got 3"):
        task_metric("f1", "multiclass", 3).part(np.zeros((2, 3)), np.array([0, 3]))
