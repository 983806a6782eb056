"""``RowMap``: one loop over Arrow batches for every model, with its policies, its reasons and its counts."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.ml.linalg import DenseVector
from pyspark.sql import functions as F

from udfs.arrow import VECTOR, NewColumns, RowError, RowMap, RowPolicy
from udfs.driver import map_rows, quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

# Spark's workers do not find this module.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

LOG: list[str] = []


class DoubleError(RowError):
    pass


@dataclass(frozen=True, slots=True)
class Double:
    """Twice the number; a negative one is bad."""

    batch_size: int = 3
    reads: tuple[str, ...] = ("x",)
    adds: tuple[pa.Field, ...] = field(default=(pa.field("twice", pa.int64()),))

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        LOG.append(f"opened for {threads}")
        return self._double

    @staticmethod
    def _double(batch: pa.RecordBatch) -> NewColumns:
        assert batch.schema.names == ["x"]
        LOG.append(str(batch.num_rows))
        numbers = batch.column("x").to_pylist()
        reasons = [None if x is not None and x >= 0 else "null" if x is None else f"negative: {x}" for x in numbers]
        twice = pa.array([None if x is None or x < 0 else 2 * x for x in numbers], pa.int64())
        return NewColumns.explained([twice], reasons)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    LOG.clear()


def rows(errors: Any, column: str | None = "why") -> RowMap:
    return RowMap(Double(), ("id", "x"), RowPolicy(errors, column, DoubleError))


def batches(*lengths: int, numbers: tuple[int | None, ...] = (0, -1, 2, None, 4, -5, 6)) -> list[pa.RecordBatch]:
    whole = pa.RecordBatch.from_pydict({"x": pa.array(numbers, pa.int64()), "id": list("abcdefg")[: len(numbers)]})
    starts = [sum(lengths[:place]) for place in range(len(lengths))]
    assert sum(lengths) == len(numbers)
    return [whole.slice(start, length) for start, length in zip(starts, lengths, strict=True)]


def table(run: RowMap, given: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    return pa.Table.from_batches(list(run(given))).to_pylist()


@pytest.mark.parametrize("lengths", [(7,), (2, 0, 5), (1,) * 7])
def test_batches_have_the_functions_size_and_the_model_is_opened_once(lengths: tuple[int, ...]) -> None:
    list(rows("null")(batches(*lengths)))
    assert LOG == ["opened for 1", "3", "3", "1"]


@pytest.mark.parametrize("given", [[], batches(0, numbers=()) * 2])
def test_an_empty_partition_opens_nothing(given: list[pa.RecordBatch]) -> None:
    assert list(rows("null")(given)) == []
    assert LOG == []


def test_null_keeps_every_row_with_its_reason() -> None:
    found = table(rows("null"), batches(4, 3))
    assert [list(row) for row in found] == [["id", "x", "twice", "why"]] * 7
    assert [row["twice"] for row in found] == [0, None, 4, None, 8, None, 12]
    assert [row["why"] for row in found] == [None, "negative", None, "null", None, "negative", None]


def test_what_a_reason_leaves_open_has_a_column_of_its_own() -> None:
    run = RowMap(Double(), ("id",), RowPolicy("null", "why", DoubleError, "how much"))
    found = table(run, batches(7))
    assert list(found[0]) == ["id", "twice", "why", "how much"]
    assert [row["why"] for row in found] == [None, "negative", None, "null", None, "negative", None]
    assert [row["how much"] for row in found] == [None, "-1", None, None, None, "-5", None]
    assert (
        "how much"
        not in table(RowMap(Double(), ("id",), RowPolicy("drop", "why", DoubleError, "how much")), batches(7))[0]
    )


def test_null_without_a_column_for_reasons_has_nulls_alone() -> None:
    found = table(rows("null", None), batches(7))
    assert [list(row) for row in found] == [["id", "x", "twice"]] * 7
    assert [row["twice"] for row in found] == [0, None, 4, None, 8, None, 12]


def test_drop_leaves_bad_rows_out() -> None:
    assert table(rows("drop"), batches(4, 3)) == [
        {"id": key, "x": x, "twice": 2 * x} for key, x in (("a", 0), ("c", 2), ("e", 4), ("g", 6))
    ]


def test_raise_names_the_row_of_the_partition_and_the_column() -> None:
    found = rows("raise")(batches(4, 3, numbers=(0, 1, 2, 3, -4, 5, 6)))
    assert next(found).schema.names == ["id", "x", "twice"]
    with pytest.raises(DoubleError, match=r"negative: -4: row 4 of partition 0, column 'x'") as raised:
        next(found)
    assert raised.value.reason == "negative"


@pytest.mark.parametrize("errors", ["null", "drop"])
def test_bad_rows_are_counted_by_reason(errors: str) -> None:
    bad: Counter[str] = Counter()
    list(rows(errors).run(batches(4, 3), keep=("id", "x"), read=("x",), bad=bad))
    assert bad == {"negative": 2, "null": 1}


def test_columns_go_by_their_places_whatever_they_are_called() -> None:
    odd = [pa.RecordBatch.from_arrays(batch.columns, names=["c0", "c1"]) for batch in batches(4, 3)]
    found = pa.Table.from_batches(list(rows("drop").run(odd, keep=(1, 0), read=(0,)))).to_pylist()
    assert tuple(found[0].items()) == (("id", "a"), ("x", 0), ("twice", 0))


def test_a_column_may_be_read_under_the_name_of_another_that_is_kept() -> None:
    given = [pa.RecordBatch.from_pydict({"c0": [1, 2], "c1": ["a", "b"], "c2": [10, 20]})]
    (found,) = rows("drop").run(given, keep=(1, 0), read=(2,))
    assert found.to_pydict() == {"id": ["a", "b"], "x": [1, 2], "twice": [20, 40]}


@pytest.mark.contract
def test_over_a_data_frame(spark: SparkSession) -> None:
    """Names with dots and backquotes, a computed column, vectors that know their size."""
    df = spark.createDataFrame([(1, 2.0), (2, -1.0), (3, None)], "`a.b``c` int, x double")
    run = RowMap(Vectors(), ("a.b`c", "x"), RowPolicy("null", "why?"))
    found = map_rows(df, run, reads={"x": F.col("x").cast("bigint") * 10}, vectors={"v.w": 2})
    assert found.columns == ["a.b`c", "x", "v.w", "why?"]
    assert found.schema["v.w"].metadata["ml_attr"]["num_attrs"] == 2
    assert [tuple(row) for row in found.orderBy(quoted("a.b`c")).collect()] == [
        (1, 2.0, DenseVector([20.0, 1.0]), None),
        (2, -1.0, None, "negative"),
        (3, None, None, "null"),
    ]


@dataclass(frozen=True, slots=True)
class Vectors:
    batch_size: int = 2
    reads: tuple[str, ...] = ("x",)
    adds: tuple[pa.Field, ...] = field(default=(pa.field("v.w", VECTOR),))

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        del threads
        return self._pair

    @staticmethod
    def _pair(batch: pa.RecordBatch) -> NewColumns:
        numbers = batch.column("x").to_pylist()
        reasons = ["null" if x is None else f"negative: {x}" if x < 0 else None for x in numbers]
        vectors = [[x, 1.0] if why is None else None for x, why in zip(numbers, reasons, strict=True)]
        return NewColumns.explained([pa.array(vectors, VECTOR)], reasons)
