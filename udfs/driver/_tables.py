"""Tables as people have them: files, folders, catalogs and table formats, by Spark's own readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.errors import EmptyInputError, InvalidArgumentError
from udfs.driver._files import CATALOG, detect_separator, is_json_document, table_format

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_table"]


def read_table(spark: SparkSession, path: str, form: str | None = None, option: str = "--table") -> DataFrame:
    """Read a table with Spark.

    Parameters
    ----------
    path : str
        A path or URI; with ``form="catalog"`` a table's name.
    form : str, optional
        ``"csv"``, ``"parquet"``, ``"orc"``, ``"json"``, ``"catalog"``, or the name of any reader that the session has,
        such as ``"delta"``. By default told by the path's ending, and of Parquet by its content. Separated values have
        a header; separator and types are inferred.

    Raises
    ------
    InvalidArgumentError
        The format is not given, and cannot be told.
    EmptyInputError
        Separated values without a header.
    """
    form = table_format(path, form, option)
    if form == CATALOG:
        return spark.read.table(path)
    if form == "csv":
        header = spark.read.text(path).first()
        if header is None:
            raise EmptyInputError(f"{option} {path!r} is empty: it begins with a header")
        separator = detect_separator(header["value"].removeprefix("\ufeff"), path)
        return spark.read.csv(path, header=True, inferSchema=True, escape='"', sep=separator)
    if form == "json":
        first = spark.read.text(path).first()
        if first is None:
            raise EmptyInputError(f"{option} {path!r} is empty")
        return spark.read.json(path, multiLine=is_json_document(first["value"]))
    if not form.replace("_", "").replace(".", "").isalnum():
        raise InvalidArgumentError(f"{option} {path!r}: {form!r} is no name of a reader")
    return spark.read.format(form).load(path)
