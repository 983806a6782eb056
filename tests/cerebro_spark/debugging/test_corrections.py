"""Corrections of labels, and the comparison of the models before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from cerebro_spark.debugging import ModelComparison, relabel
from cerebro_spark.debugging._comparison import _interval
from cerebro_spark.errors import ColumnError, InvalidArgumentError, LabelError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    rows = [(f"{number:03d}", float(number), number % 2) for number in range(6)] + [("006", 6.0, None)]
    return spark.createDataFrame(rows, "`row.id` string, x double, label int")


def corrected(table: DataFrame, corrections: Any, **options: Any) -> dict[str, int]:
    changed = relabel(table, corrections, id_column="row.id", label_column="label", **options)
    assert changed.schema == table.schema or changed.dtypes == table.dtypes
    return {row["row.id"]: row["label"] for row in changed.collect()}


def test_a_reviewed_file_changes_the_decided_labels_alone(table: DataFrame, tmp_path: Path) -> None:
    file = tmp_path / "reviewed.csv"
    file.write_text("row.id,suggested_label,corrected_label\n001,0,0\n002,1,\n006,1,1\n")
    expected = {"000": 0, "001": 0, "002": 0, "003": 1, "004": 0, "005": 1, "006": 1}
    assert corrected(table, str(file)) == expected
    assert corrected(table, pd.read_csv(file, dtype={"row.id": str})) == expected
    records = [{"row.id": "001", "corrected_label": 0, "user": "ada"}, {"row.id": "006", "corrected_label": 1}]
    assert corrected(table, records) == expected, "those of Client.corrections"
    spark = table.sparkSession
    frame = spark.createDataFrame([("001", 0.0), ("006", 1.0)], "`row.id` string, better double")
    assert corrected(table, frame, correction_column="better") == expected


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([("1", 0)], ColumnError, "ids of corrections must be in df, got '1'"),
        ([("001", 2)], LabelError, "must be a label of 'label', 0, 1, got 2"),
        ([("001", 0.5)], ColumnError, "must be whole numbers, as in df, got 0.5"),
        ([("001", "cat")], ColumnError, "must be whole numbers, as in df, got 'cat'"),
        ([("001", 0), ("001", 1)], ColumnError, "ids of corrections must be different, got '001'"),
        ([(None, 0)], ColumnError, "ids of corrections must have no nulls, got 1"),
        ([("001", None)], InvalidArgumentError, "must have at least one label"),
    ],
)
def test_wrong_corrections_are_refused(table: DataFrame, rows: list[Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        corrected(table, pd.DataFrame(rows, columns=["row.id", "corrected_label"]))


def test_wrong_tables_are_refused(table: DataFrame) -> None:
    good = pd.DataFrame({"row.id": ["001"], "corrected_label": [3]})
    assert corrected(table, good, classes=[0, 1, 3])["001"] == 3
    with pytest.raises(ColumnError, match="corrections has no column 'corrected_label'; did you mean 'correct_label'"):
        corrected(table, good.rename(columns={"corrected_label": "correct_label"}))
    with pytest.raises(InvalidArgumentError, match=r"or the path of a CSV file, got 'gone\.csv'"):
        corrected(table, "gone.csv")
    twice = table.union(table)
    with pytest.raises(ColumnError, match="a different value in each row"):
        corrected(twice, good)


def test_the_interval_is_that_of_a_paired_bootstrap() -> None:
    random = np.random.default_rng(2)
    first, second = random.random(900) < 0.3, random.random(900) < 0.22
    differences = second.astype(float) - first
    low, high = _interval(differences, 0.95, 4000, 1)
    drawn = np.random.default_rng(7).integers(0, 900, (4000, 900))
    expected = np.quantile(differences[drawn].mean(axis=1), [0.025, 0.975])
    assert np.allclose([low, high], expected, atol=0.004)


def test_a_comparison_says_whether_it_is_significant() -> None:
    sure = ModelComparison("accuracy", 0.8, 0.83, 0.03, 0.01, 0.05, 0.95, 1000, 0)
    unsure = ModelComparison("accuracy", 0.8, 0.81, 0.01, -0.01, 0.03, 0.95, 1000, 2)
    assert sure.is_significant and not unsure.is_significant
    assert "not significant; 2 rows are left out" in unsure.explain()
