"""The two tables of a transfer, read by Spark."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from udfs.driver import check_file_columns, detect_separator
from vista_spark.errors import ColumnError, InvalidArgumentError
from vista_spark.files import Source, numeric_columns, read_images, read_table, survey
from vista_spark.files._tables import _above

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
    as_number = read_images(spark, str(tmp_path), "id", "image", spark.range(1))
    assert {row.id for row in as_number.collect()} == {7, None, 9}
    as_text = read_images(spark, str(tmp_path), "id", "image", spark.range(1).select(F.lit("").alias("id")))
    assert {row.id for row in as_text.collect()} == {"007", "12.tar", "cover", "9"}


def test_numeric_columns_are_the_structured_features(spark: SparkSession) -> None:
    table = spark.sql("select 1 as id, 'a' as word, 2.5D as price, true as new, 3 as label")
    assert numeric_columns(table, ["id", "label"]) == ["price", "new"]
    with pytest.raises(ColumnError, match="--features"):
        numeric_columns(table.select("id", "word", "label"), ["id", "label"])


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["a", None], {"a.b", "c", "1", "2"}),
        (["c.JPG"], {"a.b.png", "c.JPG", "1.jpg", "2.jpg"}),
        (["cats/1", "c"], {"a.b", "c", "cats/1", "cats/old/2"}),
        (["cats/old/2.jpg"], {"a.b.png", "c.JPG", "cats/1.jpg", "cats/old/2.jpg"}),
    ],
)
def test_ids_may_be_paths_below_the_folder(
    ids: list[str | None], expected: set[str], spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "photos" / "of (2026) photos" / "photos"
    (folder / "cats" / "old").mkdir(parents=True)
    for name in ("a.b.png", "c.JPG", "cats/1.jpg", "cats/old/2.jpg"):
        (folder / name).write_bytes(b"x")
    table = spark.createDataFrame([(name,) for name in ids], "id string")
    for path in (str(folder), f"file://{folder}/", f"file:{folder}", f"{tmp_path}/photos/../photos/of*/photos"):
        assert {row.id for row in read_images(spark, path, "id", "image", table).collect()} == expected


def test_equals_are_settled_by_the_ending() -> None:
    """A name of a column may have a comma in it."""
    assert detect_separator("id\tlast, first", "people.tsv") == detect_separator("id\ta,b", "people.tsv.gz") == "\t"
    assert detect_separator("id\tlast, first", "people.csv") == ","


def test_a_path_of_another_working_directory() -> None:
    for path, spark_path in (
        ("photos", "file:/home/anna/photos/cats/1.jpg"),
        ("./photos/", "hdfs://node:8020/user/anna/photos/cats/1.jpg"),
        ("s3://bucket/photos", "s3a://bucket/photos/cats/1.jpg"),
        ("hdfs:///", "hdfs://node/cats/1.jpg"),
    ):
        assert re.sub(_above(path), "", spark_path) == "cats/1.jpg"


def test_a_folder_of_parquet_by_any_name(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).withColumn("image", F.lit(b"x")).write.parquet(str(tmp_path / "photos"))
    assert read_table(spark, str(tmp_path / "photos")).count() == 3
    assert read_images(spark, str(tmp_path / "photos"), "id", "image", spark.range(1)).columns == ["id", "image"]
    (tmp_path / "empty").mkdir()
    for path in ("empty", "missing"):
        with pytest.raises(InvalidArgumentError, match="Parquet"):
            read_table(spark, str(tmp_path / path))


@pytest.mark.parametrize(("name", "separator"), [("t.csv", ";"), ("t.tsv", "\t"), ("t.csv", "|"), ("t.csv", ",")])
def test_the_separator_is_detected(name: str, separator: str, spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(separator.join(["id", '"a, b; c"', "label"]) + "\n" + separator.join(["1", '"2.5"', "x"]) + "\n")
    table = read_table(spark, str(path))
    assert table.columns == ["id", "a, b; c", "label"]
    assert table.first()[0] == 1
    assert check_file_columns(str(path), ["label"], "--table") == table.columns
    picture = tmp_path / "1.jpg"
    picture.write_bytes(b"x")
    found = survey(Source(str(picture), str(path), on="id", label="label"))
    assert (found.rows, found.features) == (1, ("a, b; c",))
