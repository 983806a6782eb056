"""Cascades over Arrow batches: rows that go on, bad rows, classes in another order, stored answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from udfs.arrow import NewColumns, RowError, RowMap, RowPolicy
from udfs.cascades import CascadeScoring, ColumnScores, Member, SampleScoring, row_keys

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SEEN: list[tuple[str, int]] = []


@dataclass(frozen=True)
class Scores:
    """Model with the scores of a table, by the number in its column; nulls are bad rows."""

    name: str
    table: tuple[tuple[float, ...], ...]
    batch_size: int = 2
    reads: tuple[str, ...] = ("x",)
    adds: tuple[pa.Field, ...] = field(default=(pa.field("scores", pa.list_(pa.float32())),))

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        SEEN.append((f"open {self.name}", threads))
        return self._run

    def _run(self, batch: pa.RecordBatch) -> NewColumns:
        SEEN.append((self.name, batch.num_rows))
        numbers = batch.column("x").to_pylist()
        rows = [None if number is None else self.table[number] for number in numbers]
        return NewColumns([pa.array(rows, self.adds[0].type)], [None if row else "null" for row in rows])


SURE = Scores("sure", ((0.9, 0.1), (0.2, 0.8), (0.55, 0.45), (0.5, 0.5)))
ORACLE = Scores("oracle", ((0.0, 1.0), (0.0, 1.0), (0.0, 3.0), (2.0, 0.0)))


def scored(members: list[Any], values: list[Any], **options: Any) -> tuple[list[Any], ...]:
    SEEN.clear()
    settings = {"metric": "accuracy", "positive": 1, "labels": ("no", "yes"), "columns": ("p", "odds", "by")} | options
    scoring = CascadeScoring(tuple(members), (0.8,) * (len(members) - 1), **settings)
    batch = pa.RecordBatch.from_arrays([pa.array(values, pa.int64())] * len(members), names=list(scoring.reads))
    table = pa.Table.from_batches(RowMap(scoring, (), RowPolicy("null", "why"))([batch]))
    return tuple(table.column(name).to_pylist() for name in ("p", "by", "why"))


def members(*models: Scores) -> list[Member]:
    return [Member(model.name, model, "scores") for model in models]


def test_unsure_rows_go_on_and_confident_rows_stay() -> None:
    predictions, models, reasons = scored(members(SURE, ORACLE), [0, 1, 2, 3, 0])
    assert predictions == ["no", "yes", "yes", "no", "no"]
    assert models == ["sure", "sure", "oracle", "oracle", "sure"]
    assert reasons == [None] * 5
    assert [entry for entry in SEEN if entry[0] == "oracle"] == [("oracle", 2)]


def test_the_oracle_opens_when_a_row_needs_it() -> None:
    scored(members(SURE, ORACLE), [0, 1])
    assert "open oracle" not in dict(SEEN)


def test_a_row_that_no_model_reads_is_bad() -> None:
    predictions, models, reasons = scored(members(SURE, ORACLE), [0, None, 2])
    assert predictions == ["no", None, "yes"]
    assert models == ["sure", None, "oracle"]
    assert reasons == [None, "null", None]


@pytest.mark.parametrize(("metric", "expected"), [("precision", ["oracle", "p"]), ("recall", ["p", "oracle"])])
def test_proxies_answer_one_class_for_precision_and_recall(metric: str, expected: list[str]) -> None:
    proxy = Member("p", Scores("p", ((0.9, 0.1), (0.1, 0.9))), "scores")
    _, models, _ = scored([proxy, *members(ORACLE)], [0, 1], metric=metric)
    assert models == expected


def test_classes_in_another_order_are_aligned() -> None:
    turned = Member("turned", SURE, "scores", classes=(1, 0))
    predictions, _, _ = scored([turned, *members(ORACLE)], [0, 1])
    assert predictions == ["yes", "no"]


def test_another_number_of_classes_is_refused() -> None:
    three = Scores("three", ((0.1, 0.2, 0.7),))
    with pytest.raises(RowError, match="three must have scores of the 2 classes of the cascade, got 3"):
        scored(members(three, ORACLE), [0])


def test_a_probability_of_two_classes_is_a_number() -> None:
    column = Member("column", ColumnScores("x", pa.float64()), "scores")
    scoring = SampleScoring((column,), 0, "accuracy", 1)
    batch = pa.RecordBatch.from_arrays([pa.array([0.25, None, 0.875])], names=["0.x"])
    new = scoring.open(1)(batch)
    assert new.columns[0].to_pylist() == [0, -1, 1]
    assert new.columns[1].to_pylist() == [0.75, -np.inf, 0.875]
    labels = pa.RecordBatch.from_arrays([pa.array([0.0, 1.0, 2.0])], names=["0.x"])
    with pytest.raises(RowError, match="column must be probabilities of the second class, from 0 to 1, got 2"):
        scoring.open(1)(labels)


def test_stored_answers_are_not_computed_again(tmp_path: Path) -> None:
    stored = [Member(model.name, model, "scores", digest=model.name) for model in (SURE, ORACLE)]
    first = scored(stored, [0, 1, 2, None], reuse=str(tmp_path))
    computed = [entry for entry in SEEN if not entry[0].startswith("open")]
    assert sum(rows for name, rows in computed if name == "sure") == 4
    again = scored(stored, [2, 0, 1, None, 3], reuse=str(tmp_path))
    assert again[0][:4] == [first[0][2], first[0][0], first[0][1], None]
    # The bad row and the new one.
    assert sum(rows for name, rows in SEEN if name == "sure") == 2
    assert sum(rows for name, rows in SEEN if name == "oracle") == 2


def test_time_is_measured_where_all_answers_are_stored(tmp_path: Path) -> None:
    stored = (Member("sure", SURE, "scores", digest="sure"),)
    scoring = SampleScoring(stored, 2, "accuracy", 1, reuse=str(tmp_path))
    batch = pa.RecordBatch.from_arrays([pa.array([0, 1, 2])], names=["0.x"])
    for _ in range(2):
        new = scoring.open(1)(batch)
        assert new.columns[0].to_pylist() == [0, 1, 0]
        assert all(seconds > 0 for seconds in new.columns[2].to_pylist())


def test_keys_tell_rows_apart() -> None:
    columns = [
        pa.array(["a", "ab", "a", None, "1"]),
        pa.array(["bc", "c", "bc", "x", "x"]),
        pa.array([[1.0], [1.0], [1.0], [1.0, 2.0], None], pa.list_(pa.float64())),
        pa.array([b"x", b"x", b"x", b"x", b"x"]),
    ]
    keys = row_keys(pa.RecordBatch.from_arrays(columns, names=list("abcd")))
    assert keys[0] == keys[2]
    assert len(set(keys)) == 4
