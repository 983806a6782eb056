"""The two tables of a feature transfer, read from files by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's users know

from udfs.driver import check_present, is_csv, is_numeric, is_parquet
from vista_spark.errors import ColumnError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

__all__ = ["numeric_columns", "read_images", "read_table"]


def read_table(spark: SparkSession, path: str) -> DataFrame:
    """Read a table from CSV (with a header; types are inferred) or Parquet, by the path's ending.

    Raises
    ------
    InvalidArgumentError
        Another ending.
    """
    if is_csv(path):
        return spark.read.csv(path, header=True, inferSchema=True, escape='"')
    if is_parquet(path):
        return spark.read.parquet(path)
    raise InvalidArgumentError(f"--table {path!r}: a .csv file (gzipped too) or .parquet")


def read_images(spark: SparkSession, path: str, on: str, image: str, id_type: DataType) -> DataFrame:
    """Read images from a Parquet file with the columns ``on`` and ``image``, or from a folder of files.

    In a folder, searched to any depth, a file's id is its name without the ending, as the table's type of id; a name
    that does not fit the type gives a null.
    """
    if is_parquet(path):
        table = spark.read.parquet(path)
        check_present(table, [on, image], "--images")
        return table.select(on, image)
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(path)
    stem = F.regexp_extract("path", r"([^/]+?)(\.[^./]*)?$", 1)
    return files.select(stem.try_cast(id_type).alias(on), F.col("content").alias(image))


def numeric_columns(table: DataFrame, without: Sequence[str]) -> list[str]:
    """List the structured features where none are named: every numeric column but these.

    Raises
    ------
    ColumnError
        There is none.
    """
    numeric = [field.name for field in table.schema if is_numeric(field.dataType) and field.name not in without]
    if not numeric:
        raise ColumnError(
            f"no numeric column beside {', '.join(without)}: name the structured features with --features"
        )
    return numeric
