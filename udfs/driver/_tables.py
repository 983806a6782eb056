"""Tables as people have them: files, folders, catalogs and table formats, by Spark's own readers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from optimizer.errors import EmptyInputError, InvalidArgumentError
from udfs.driver._files import CATALOG, detect_separator, is_json_document, table_format
from udfs.driver._text_numbers import as_numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_table"]

_LOG = logging.getLogger(__name__)


def read_table(
    spark: SparkSession,
    path: str,
    form: str | None = None,
    option: str = "--table",
    *,
    on_note: Callable[[str], object] = _LOG.warning,
) -> DataFrame:
    """Read a table with Spark.

    A column of separated values or JSON whose values are numbers, except for words such as ``n/a``, is a column of
    numbers; the words are nulls.

    Parameters
    ----------
    path : str
        A path or URI; with ``form="catalog"`` a table's name.
    form : str, optional
        ``"csv"``, ``"parquet"``, ``"orc"``, ``"json"``, ``"catalog"``, or the name of any reader that the session has,
        such as ``"delta"``. By default told by the path's ending, and of Parquet by its content. Separated values have
        a header; separator and types are inferred.
    on_note : callable
        Function that is called with a sentence for each column in which words were read as nulls; by default it logs a
        warning.

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
        table = spark.read.csv(path, header=True, inferSchema=True, escape='"', sep=separator)
        return _with_numbers(table, on_note, only_with_words=False)
    if form == "json":
        first = spark.read.text(path).first()
        if first is None:
            raise EmptyInputError(f"{option} {path!r} is empty")
        table = spark.read.json(path, multiLine=is_json_document(first["value"]))
        return _with_numbers(table, on_note, only_with_words=True)
    if not form.replace("_", "").replace(".", "").isalnum():
        raise InvalidArgumentError(f"{option} {path!r}: {form!r} is no name of a reader")
    return spark.read.format(form).load(path)


def _with_numbers(table: DataFrame, on_note: Callable[[str], object], *, only_with_words: bool) -> DataFrame:
    table, cast = as_numbers(table, only_with_words=only_with_words)
    for each in cast:
        on_note(f"{each.name!r} is read as numbers: {each.word!r} is a missing value ({each.missing} rows)")
    return table
