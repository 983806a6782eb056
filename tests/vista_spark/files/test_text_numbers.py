"""Columns that are text because of a few values: read as numbers, or named with the value."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from udfs.driver import read_table
from vista_spark.errors import ColumnError
from vista_spark.files import Source, check_source, survey

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

HEADER = "id;price;label"


def source_of(folder: Path, values: list[str], **settings: object) -> Source:
    """Write a table of prices and a folder with a file for each row."""
    (folder / "images").mkdir()
    for number in range(len(values)):
        (folder / "images" / f"{number}.jpg").write_bytes(b"x")
    rows = [f"{number};{value};{number % 2}" for number, value in enumerate(values)]
    (folder / "table.csv").write_text("\n".join([HEADER, *rows]))
    return Source(str(folder / "images"), str(folder / "table.csv"), label="label", **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "numbers", "kind"),
    [
        (["1.5", "n/a", "2.5"], [1.5, None, 2.5], "double"),
        (["1", "NA", "2", "-", "3"], [1, None, 2, None, 3], "int"),
        (["1", "?", " 3", "4"], [1, None, 3, 4], "int"),
        (["12345678901", "none", "2", "3"], [12345678901, None, 2, 3], "bigint"),
        (["1e3", "unknown", "", "-2"], [1000.0, None, None, -2.0], "double"),
        ([" 1.5", " 2.5"], [1.5, 2.5], "double"),
    ],
)
def test_words_for_a_missing_value_leave_a_column_of_numbers(
    values: list[str], numbers: list[float | None], kind: str, spark: SparkSession, tmp_path: Path
) -> None:
    source = source_of(tmp_path, values)
    check_source(source, "local[2]")
    loaded = source.load(spark, classification=True)
    assert loaded.features == survey(source).features == ("price",)
    assert loaded.structured.schema["price"].dataType.simpleString() == kind
    assert [row.price for row in loaded.structured.orderBy("id").collect()] == numbers
    words = [value for value in values if (value.strip() and value.strip()[-1].isalpha()) or value in ("-", "?")]
    assert len(loaded.notes) == bool(words)
    assert all(words[0] in note and "'price'" in note for note in loaded.notes)


@pytest.mark.parametrize(
    ("values", "offender"),
    [
        (["1.5", "on request", "2.5"], "on request"),
        (["1", "2", "3,5"], "3,5"),
        (["1", "2 kg", "3"], "2 kg"),
        (["n/a", "n/a", "3"], "n/a"),
    ],
)
def test_another_value_is_named_where_the_column_is_not_used(
    values: list[str], offender: str, spark: SparkSession, tmp_path: Path
) -> None:
    source = source_of(tmp_path, values)
    loaded = source.load(spark, classification=True)
    assert loaded.features == survey(source).features == ()
    for notes in (loaded.notes, survey(source).notes):
        assert [note for note in notes if f"'price' is text because of {offender!r}" in note], notes


def test_a_text_feature_is_refused_by_its_value_before_spark_starts(tmp_path: Path) -> None:
    source = source_of(tmp_path, ["1", "sold out", "3"], features=["price"])
    with pytest.raises(ColumnError, match=r"'price' is text because of 'sold out' \(1 of 3 values\).*--categories"):
        check_source(source, "local[2]")


def test_a_feature_with_a_missing_word_passes_the_check(spark: SparkSession, tmp_path: Path) -> None:
    source = source_of(tmp_path, ["1", "n/a", "3"], features=["price"])
    check_source(source, "local[2]")
    assert source.load(spark, classification=True).features == ("price",)


def test_columns_of_other_types_are_named(spark: SparkSession, tmp_path: Path) -> None:
    source = source_of(tmp_path, ["red", "blue", "red"])
    assert source.load(spark, classification=True).notes == (
        "not used: 'price' (text, such as 'red'); --categories indexes texts",
    )


def test_formats_with_types_keep_their_texts(spark: SparkSession, tmp_path: Path) -> None:
    """A zip code in Parquet or in quotes of JSON is text on purpose; a word among numbers of JSON is not."""
    pq.write_table(pa.table({"zip": ["01234", "n/a", "04567"]}), tmp_path / "zips.parquet")
    assert read_table(spark, str(tmp_path / "zips.parquet")).first()["zip"] == "01234"  # type: ignore[index]
    rows = [{"zip": "01234", "price": 1.5}, {"zip": "04567", "price": "n/a"}, {"zip": "1", "price": 2}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    notes: list[str] = []
    read = read_table(spark, str(tmp_path / "rows.jsonl"), on_note=notes.append)
    assert {field.name: field.dataType.simpleString() for field in read.schema} == {"price": "double", "zip": "string"}
    assert notes == ["'price' is read as numbers: 'n/a' is a missing value (1 rows)"]
