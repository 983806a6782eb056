"""The two tables of a feature transfer, read from files by Spark."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from udfs.driver import check_present, is_numeric, is_table, quoted, read_table
from vista_spark.errors import ColumnError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["numeric_columns", "path_below", "read_class_folders", "read_images", "read_table", "without_ending"]

_ENDINGS = r"(?i)\.(jpe?g|png|webp|gif|bmp|tiff?)$"


def read_images(
    spark: SparkSession, path: str, on: str, image: str, ids: DataFrame, form: str | None = None
) -> DataFrame:
    """Read images from a table with the columns ``on`` and ``image``, or from a folder of files.

    In a folder, searched to any depth, a file's id is its name without the ending. Where ids of the table have a slash
    they are paths below the folder; where they have an image's ending, so has the id of a file. A name that does not
    fit the type of the ids gives a null.

    Parameters
    ----------
    on, image : str
        Columns.
    ids : DataFrame
        The structured table, which has the column ``on``.
    form : str, optional
        Format of a table of images, as for :func:`udfs.driver.read_table`.

    Raises
    ------
    ColumnError
        A table without one of the columns.
    """
    if is_table(path, form):
        return _images_of(read_table(spark, path, form, "--images"), on, image)
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(path)
    first = files.select("path").first()
    if first is not None and first["path"].endswith(".parquet"):  # a folder that only Spark can look into
        return _images_of(spark.read.parquet(path), on, image)
    kind = ids.schema[on].dataType
    has_folders, has_ending = _spelling(ids, on) if isinstance(kind, StringType) else (False, False)
    name = path_below(path) if has_folders else F.substring_index("path", "/", -1)
    if not has_ending:
        name = without_ending(name)
    return files.select(name.try_cast(kind).alias(on), F.col("content").alias(image))


def read_class_folders(spark: SparkSession, path: str, on: str, label: str, image: str) -> DataFrame:
    """Read images whose class is the name of the folder that they lie in, right below ``path``, at any depth.

    Parameters
    ----------
    on, label, image : str
        Columns to make: the path of the file below the folder, the class, and the encoded image. The class is null for
        an image that lies in no folder.
    """
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(path)
    below = path_below(path)
    kind = F.when(below.contains("/"), F.substring_index(below, "/", 1))
    return files.select(below.alias(on), kind.alias(label), F.col("content").alias(image))


def _images_of(table: DataFrame, on: str, image: str) -> DataFrame:
    check_present(table, [on, image], "--images")
    return table.select(on, image)


def _spelling(ids: DataFrame, on: str) -> tuple[bool, bool]:
    """Return whether ids have folders, and whether they end like an image file."""
    column = F.col(quoted(on))
    row = ids.agg(
        F.bool_or(column.contains("/")).alias("folders"), F.bool_or(column.rlike(_ENDINGS)).alias("ending")
    ).first()
    assert row is not None  # an aggregate without groups has one row
    return bool(row["folders"]), bool(row["ending"])


def path_below(path: str) -> Column:
    """Return the column ``path`` of files below a folder, without the folder; the whole path for the file itself.

    Parameters
    ----------
    path : str
        Folder, file or pattern that Spark lists.
    """
    return F.regexp_replace("path", _above(path), "")


def without_ending(path: Column) -> Column:
    """Return a path without its file's ending; the dot of a hidden file begins none.

    Parameters
    ----------
    path : Column
        Strings.
    """
    return F.regexp_replace(path, r"(?<=[^/])\.[^./]*$", "")


def _above(path: str) -> str:
    """Make a pattern of all that stands before a file's path below a folder, as Spark writes it."""
    inner = re.sub(r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?", "", path)
    if inner == path and not path.startswith("/") and Path(path).exists():
        inner = str(Path(path).absolute())
    if inner == path and not path.startswith("/"):
        inner = posixpath.normpath(path)  # below the working directory of another machine
        start = "^.*?/"
    else:
        inner = posixpath.normpath(inner)
        start = r"^(?:[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?)?"
    # Of wildcards, what they stand for is above the files.
    parts = [
        re.sub(r"\\[*?]", "[^/]*", re.escape(part)) for part in inner.strip("/").split("/") if part not in ("", ".")
    ]
    below = "/".join(parts)
    return f"{start}{'/+' if start.startswith('^(') else ''}{below}{'/+' if below else ''}"


def numeric_columns(table: DataFrame, without: Sequence[str], *, at_least: int = 1) -> list[str]:
    """List the structured features where none are named: every numeric column but these.

    Raises
    ------
    ColumnError
        There are fewer than so many.
    """
    numeric = [field.name for field in table.schema if is_numeric(field.dataType) and field.name not in without]
    if len(numeric) < at_least:
        raise ColumnError(
            f"the table must have a numeric column beside {', '.join(without)}. Name the structured features with "
            "--features."
        )
    return numeric
