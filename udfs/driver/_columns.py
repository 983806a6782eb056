"""Checks of a DataFrame's columns, made before Spark starts a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.ml.linalg import VectorUDT
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    NumericType,
    StringType,
    StructType,
)

from optimizer.errors import ColumnError, nearest
from udfs.images import IMAGE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

__all__ = [
    "check_absent",
    "check_image",
    "check_numbers",
    "check_present",
    "check_text",
    "holds_image_lists",
    "is_numeric",
]


def check_present(df: DataFrame, columns: Iterable[str], what: str) -> None:
    """Raise ``ColumnError`` for the first column that ``df`` lacks, with what there is and the nearest."""
    for column in columns:
        if column not in df.columns:
            raise ColumnError(
                f"{what} has no column {column!r}{nearest(column, df.columns)}; columns: {', '.join(df.columns)}"
            )


def check_absent(df: DataFrame, columns: Iterable[str], remedy: str) -> None:
    """Raise ``ColumnError`` where a column to be added is there already, or would be added twice."""
    existing = set(df.columns)
    for column in columns:
        if column in existing:
            raise ColumnError(f"column {column!r} exists already: {remedy}")
        existing.add(column)


def check_image(df: DataFrame, column: str, what: str) -> None:
    """Raise ``ColumnError`` unless ``column`` is of a type that holds images."""
    check_present(df, [column], what)
    kind = df.schema[column].dataType
    if not _holds_images(kind):
        raise ColumnError(
            f"column {column!r} of {what} must be an image: binary (encoded bytes), string (path), "
            "Spark's image struct, or "
            "an array of float or double (a preprocessed tensor), or an array of one of the first three for several "
            f"images; got {kind.simpleString()}"
        )


def check_text(df: DataFrame, column: str, what: str) -> None:
    """Raise ``ColumnError`` unless ``column`` is text."""
    check_present(df, [column], what)
    kind = df.schema[column].dataType
    if not isinstance(kind, StringType):
        raise ColumnError(f"column {column!r} of {what} must be a string, got {kind.simpleString()}")


def check_numbers(df: DataFrame, column: str, what: str) -> None:
    """Raise ``ColumnError`` unless ``column`` holds tensors: Spark ML vectors, or arrays of numbers."""
    check_present(df, [column], what)
    kind = df.schema[column].dataType
    if not isinstance(kind, VectorUDT) and not _holds_floats(kind):
        raise ColumnError(
            f"column {column!r} of {what} must be a Spark ML vector or an array of float or double, as CNNFeaturizer("
            f'pooling="none") writes tensors; got {kind.simpleString()}'
        )


def is_numeric(kind: DataType | pa.DataType) -> bool:
    """Return whether a column of this type, of Spark or of Arrow, counts as a number: decimals and booleans do.

    Examples
    --------
    >>> from pyspark.sql.types import BooleanType, DecimalType, StringType
    >>> [is_numeric(kind) for kind in (DecimalType(), BooleanType(), pa.decimal128(9), pa.bool_())]
    [True, True, True, True]
    >>> is_numeric(StringType()), is_numeric(pa.date32())
    (False, False)
    """
    if isinstance(kind, DataType):
        return isinstance(kind, (NumericType, BooleanType))
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    return any(test(kind) for test in tests)


def holds_image_lists(df: DataFrame, column: str) -> bool:
    """Return whether each record of a column holds a list of images."""
    kind = df.schema[column].dataType
    return isinstance(kind, ArrayType) and _is_image(kind.elementType)


def _holds_images(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType):
        return _is_image(kind)
    return _is_image(kind.elementType) or _holds_floats(kind)


def _holds_floats(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType):
        return False
    while isinstance(kind, ArrayType):
        kind = kind.elementType
    return isinstance(kind, (FloatType, DoubleType))


def _is_image(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return set(kind.names) >= set(IMAGE_FIELDS)
    return isinstance(kind, (BinaryType, StringType))
