"""Columns of a Spark DataFrame that a compiled pipeline reads: their names, and their types as workers take them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, BooleanType, MapType, NumericType, StringType

from udfs.driver import check_present, quoted
from vista_spark.errors import ColumnError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame

__all__ = ["category_column", "list_column", "matching_columns", "number_column"]


def matching_columns(dataset: DataFrame, names: Iterable[str]) -> list[str]:
    """Return the columns that names mean, as Spark matches names: without regard to case by default.

    A name without a match stays as it is.

    Raises
    ------
    ColumnError
        Several columns match a name.
    """
    if str(dataset.sparkSession.conf.get("spark.sql.caseSensitive", "false")).lower() == "true":
        return list(names)
    spellings: dict[str, list[str]] = {}
    for column in dataset.columns:
        spellings.setdefault(column.lower(), []).append(column)
    matches = [(name, spellings.get(name.lower(), [name])) for name in names]
    for name, columns in matches:
        if len(columns) > 1:
            raise ColumnError(
                f"column {name!r} must be there once, got {', '.join(columns)}. Rename columns, or set "
                "spark.sql.caseSensitive to true."
            )
    return [columns[0] for _, columns in matches]


def number_column(dataset: DataFrame, column: str, what: str) -> Column | str:
    """Return a column of numbers, as float or double."""
    kind = dataset.schema[column].dataType
    if not isinstance(kind, NumericType | BooleanType):
        raise ColumnError(f"column {column!r} must hold numbers, got {kind.simpleString()} ({what}).")
    return column if kind.typeName() in {"float", "double"} else F.col(quoted(column)).cast("double")


def category_column(dataset: DataFrame, column: str, what: str, kinds: frozenset[type]) -> Column:
    """Return a column of values that a program looks up, of the types of the training."""
    kind, value = dataset.schema[column].dataType, F.col(quoted(column))
    if isinstance(kind, StringType) and str in kinds:
        return value.cast("string")
    if isinstance(kind, BinaryType) and bytes in kinds:
        return value
    if isinstance(kind, NumericType | BooleanType) and kinds & {int, float, bool}:
        return value.cast("double")
    if isinstance(kind, ArrayType) and list in kinds:
        return value
    if isinstance(kind, MapType) and dict in kinds:
        return value
    known = " or ".join(sorted(known.__name__ for known in kinds))
    raise ColumnError(f"column {column!r} must hold {known}, as in training, got {kind.simpleString()} ({what}).")


def list_column(dataset: DataFrame, column: str, what: str, width: int) -> Column | str:
    """Return a column of vectors or arrays, as an array of floats."""
    (column,) = matching_columns(dataset, [column])
    check_present(dataset, [column], what)
    field = dataset.schema[column]
    known = field.metadata.get("ml_attr", {}).get("num_attrs")
    if known not in (None, width):
        raise ColumnError(f"column {column!r} must hold {width} features, got {known} ({what}).")
    if isinstance(field.dataType, VectorUDT):
        value = F.col(quoted(column))
        return F.when(value.isNotNull(), vector_to_array(value, "float64"))
    if isinstance(field.dataType, ArrayType) and isinstance(field.dataType.elementType, NumericType):
        plain = field.dataType.elementType.typeName() in {"float", "double"}
        return column if plain else F.col(quoted(column)).cast("array<double>")
    raise ColumnError(
        f"column {column!r} must be a Spark ML vector or an array of numbers, got {field.dataType.simpleString()} "
        f"({what}). Set inputCols for one column per feature."
    )
