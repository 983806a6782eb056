"""Metrics of taggers over shards are those over all rows, and agree with entities that a plain loop reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from udfs.metrics import METRICS, MetricError, entity_f1, merge_sums, metric

TAGS = ("O", "B-a", "I-a", "B-b", "I-b")


def entities(tags: list[str]) -> set[tuple[str, int, int]]:
    """Read entities off the tags of a row one by one, as conlleval does."""
    read: set[tuple[str, int, int]] = set()
    kind, start = "", 0
    for place, tag in enumerate([*tags, "O"]):
        if kind and (tag[0] != "I" or tag[2:] != kind):
            read.add((kind, start, place))
            kind = ""
        if tag != "O" and not kind:
            kind, start = tag[2:], place
    return read


def plain_f1(truth: np.ndarray, found: np.ndarray, weights: np.ndarray, tags: tuple[str, ...]) -> float:
    right = wrong = missed = 0.0
    for known, guessed, weight in zip(truth, found, weights, strict=True):
        tagged = known >= 0
        expected = entities([tags[number] for number in known[tagged]])
        predicted = entities([tags[number] for number in guessed[tagged]])
        right += weight * len(expected & predicted)
        wrong += weight * len(predicted - expected)
        missed += weight * len(expected - predicted)
    total = 2 * right + wrong + missed
    return 2 * right / total if total else 0.0


@given(data=st.data())
def test_over_shards_as_over_all_rows(data: st.DataObject) -> None:
    rows, tokens = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 9))
    classes = st.sampled_from(range(5))
    truth = data.draw(hnp.arrays(np.int64, (rows, tokens), elements=st.one_of(st.just(-100), classes)))
    found = data.draw(hnp.arrays(np.int64, (rows, tokens), elements=classes))
    weights = data.draw(hnp.arrays(np.float64, rows, elements=st.sampled_from([0.5, 1.0, 3.0])))
    tags = data.draw(st.permutations(TAGS))
    outputs = np.eye(5, dtype=np.float32)[found]
    whole, cut = np.s_[:], data.draw(st.integers(0, rows))
    named = entity_f1(tags)
    assert named.weighted is not None
    total: dict[str, Any] = {}
    for part in (np.s_[:cut], np.s_[cut:]):
        total = merge_sums(total, {"f1": named.weighted(outputs[part], truth[part], weights[part])})
    assert np.array_equal(total["f1"], named.weighted(outputs[whole], truth, weights))
    assert named.result(total["f1"]) == pytest.approx(plain_f1(truth, found, weights, tuple(tags)))
    plain = METRICS["entity_f1"]
    assert plain.result(plain.part(outputs, truth)) == pytest.approx(plain_f1(truth, found, np.ones(rows), TAGS))
    accuracy = METRICS["token_accuracy"]
    tagged = truth >= 0
    expected = (found == truth)[tagged].mean() if tagged.any() else np.nan
    assert accuracy.result(accuracy.part(outputs, truth)) == pytest.approx(expected, nan_ok=True)


def test_an_entity_ends_with_its_row() -> None:
    f1 = metric("entity_f1")
    labels = np.array([[0, 1], [2, 0]])
    # Were the rows one text, the two entities would be one.
    assert f1.part(np.eye(3)[labels], labels).tolist() == [2, 0, 0]


def test_later_pieces_and_padding_do_not_break_an_entity() -> None:
    f1 = metric("entity_f1")
    labels = np.array([[-100, 1, -100, 2, 0, -100]])
    predicted = np.array([[0, 1, 0, 2, 0, 2]])
    assert f1.part(np.eye(3)[predicted], labels).tolist() == [1, 0, 0]


@pytest.mark.parametrize("name", ["accuracy", "f1", "precision", "recall"])
def test_metrics_of_rows_refuse_tokens(name: str) -> None:
    """They flatten a row, and would compare the place of its largest score with a class."""
    with pytest.raises(MetricError, match="use token_accuracy or entity_f1"):
        metric(name).part(np.zeros((2, 3, 4)), np.zeros((2, 3), np.int64))


def test_bad_input() -> None:
    with pytest.raises(MetricError, match=r"of a class a token.*\(4,\) and \(4, 3\)"):
        metric("token_accuracy").part(np.zeros((4, 3)), np.zeros(4, np.int64))
    with pytest.raises(MetricError, match="the tag 'person' is neither"):
        entity_f1(["O", "person"])
    with pytest.raises(MetricError, match="knows 3 classes, and there is class 4"):
        entity_f1(["O", "B-a", "I-a"]).part(np.zeros((1, 2, 5)), np.zeros((1, 2), np.int64))
