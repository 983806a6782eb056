"""Label columns of strings: the numbers of their classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cerebro_spark.launching._labels import describe_labels, is_text, number_labels, order_classes, read_classes
from optimizer.errors import LabelError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_classes_are_numbered_in_the_order_of_their_names() -> None:
    assert order_classes(["dog", "Ant", "cat"], "animal") == ["Ant", "cat", "dog"]
    assert len(order_classes(map(str, range(1000)), "animal")) == 1000


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "label 'animal' must have a value in some row, got null in all of them"),
        (map(str, range(1001)), "at most 1,000 different strings, got more, such as '0'. Is it a label"),
        (["cat", "A cat " * 50], "strings of at most 200 characters, got one of 300, which begins with 'A cat"),
    ],
)
def test_strings_that_are_no_classes_are_refused(values: list[str], message: str) -> None:
    with pytest.raises(LabelError, match=message):
        order_classes(values, "animal")


def test_the_names_are_listed_up_to_twenty() -> None:
    assert describe_labels({}) == []
    assert describe_labels({"a": ["x", ""], "b": ["y"]}) == ["labels of a: 0 = x, 1 = ''", "labels of b: 0 = y"]
    (line,) = describe_labels({"a": [f"c{number}" for number in range(22)]})
    assert line.endswith("19 = c19 and 2 more")


def test_types_of_arrow_and_spark_are_known() -> None:
    assert [is_text(name) for name in ("string", "large_string", "string_view")] == [True] * 3
    assert not any(is_text(name) for name in ("int64", "list<element: string>", "array<string>", "binary"))


def test_numbers_replace_the_strings_only(spark: SparkSession) -> None:
    rows = [("dog", 5.0), ("cat", 6.0), (None, 7.0)]
    df = spark.createDataFrame(rows, "`the.kind` string, size double").coalesce(1)
    labels = read_classes(df, ["the.kind", "size"])
    assert labels == {"the.kind": ["cat", "dog"]}
    # The table has got another class since.
    later = df.union(spark.createDataFrame([("ant", 8.0)], df.schema))
    numbered = number_labels(later, labels=labels, convert=lambda table: table.withColumnRenamed("size", "area"))
    assert numbered.columns == ["the.kind", "area"]
    assert [tuple(row) for row in numbered.collect()] == [(1, 5.0), (0, 6.0), (None, 7.0), (None, 8.0)]
