"""Schema of a table, read without a Spark job where Arrow reads the table: workers may hold all task slots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import ColumnError, InvalidArgumentError
from cerebro_spark.hopper import uses_slots
from optimizer.errors import nearest
from udfs.driver import cause, open_dataset, read_table, table_format
from udfs.requests import RequestHandler

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from udfs.requests import RequestContext

__all__ = ["SCHEMA", "check_columns", "load_table", "table_schema"]

_COUNTED = ("parquet", "orc")


def _schema(document: Mapping[str, Any], context: RequestContext) -> dict[str, Any]:
    """Return the columns of a table, and its number of rows if the files have it."""
    table = document.get("table")
    if not isinstance(table, str) or not table.strip():
        raise InvalidArgumentError(f"table must be the path of a table, got {table!r}.")
    form = document.get("table_format") or None
    return table_schema(context.spark, table.strip(), form)


SCHEMA = RequestHandler("schema", _schema)
"""Handler of ``{"table": path}``."""


def table_schema(spark: SparkSession, table: str, form: str | None = None) -> dict[str, Any]:
    """Return ``columns`` with ``name``, ``type`` and ``nullable``, and ``rows`` or None.

    Raises
    ------
    InvalidArgumentError
        There is no such table, or it cannot be read.
    EmptyInputError
        It has no file.
    """
    # Only Spark reads paths with wildcards.
    data = None if any(character in table for character in "*?[{") else open_dataset(table, "table", form)
    if data is None:
        fields = load_table(spark, table, form).schema.fields
        columns = [
            {"name": each.name, "type": each.dataType.simpleString(), "nullable": each.nullable} for each in fields
        ]
        return {"columns": columns, "rows": None}
    columns = [{"name": each.name, "type": str(each.type), "nullable": each.nullable} for each in data.schema]
    rows = data.count_rows() if table_format(table, form, "table") in _COUNTED else None
    return {"columns": columns, "rows": rows}


def load_table(spark: SparkSession, table: str, form: str | None = None) -> DataFrame:
    """Read a table with Spark.

    Raises
    ------
    BusyError
        Workers hold all task slots.
    InvalidArgumentError
        There is no such table, or it cannot be read.
    """
    try:
        with uses_slots(spark):
            return read_table(spark, table, form, "table")
    except Exception as error:
        if type(error).__module__.startswith("pyspark."):
            first = str(cause(error)).strip().split("\n", 1)[0]
            raise InvalidArgumentError(f"table must be one that Spark can read, got {table!r}: {first}") from error
        raise


def check_columns(columns: Iterable[str], known: Iterable[str]) -> None:
    """Raise ``ColumnError`` for the first column that a table lacks."""
    listed = list(known)
    for column in columns:
        if column not in listed:
            hint = nearest(column, listed) or "."
            raise ColumnError(f"columns must be those of the table ({', '.join(listed)}), got {column!r}{hint}")
