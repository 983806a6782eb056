"""The two tables of a transfer, read by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812

from vista_spark.errors import ColumnError, InvalidArgumentError
from vista_spark.files import numeric_columns, read_images, read_table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_a_table_is_csv_or_parquet(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "t.parquet"))
    assert read_table(spark, str(tmp_path / "t.parquet")).count() == 3
    with pytest.raises(InvalidArgumentError, match=r"t\.xlsx"):
        read_table(spark, "t.xlsx")


def test_ids_of_image_files_take_the_tables_type(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("007.jpg", "12.tar.gz", "cover.png", "9"):
        (tmp_path / name).write_bytes(b"x")
    as_number = read_images(spark, str(tmp_path), "id", "image", spark.range(1).schema["id"].dataType)
    assert {row.id for row in as_number.collect()} == {7, None, 9}
    as_text = read_images(spark, str(tmp_path), "id", "image", spark.range(1).select(F.lit("")).schema[0].dataType)
    assert {row.id for row in as_text.collect()} == {"007", "12.tar", "cover", "9"}


def test_numeric_columns_are_the_structured_features(spark: SparkSession) -> None:
    table = spark.sql("select 1 as id, 'a' as word, 2.5D as price, true as new, 3 as label")
    assert numeric_columns(table, ["id", "label"]) == ["price", "new"]
    with pytest.raises(ColumnError, match="--features"):
        numeric_columns(table.select("id", "word", "label"), ["id", "label"])
