"""Classes of a table: their number, and whole floats as integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, FractionalType, IntegralType

from cerebro_spark.errors import LabelError
from udfs.driver import quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

__all__ = ["count_classes", "integer_labels", "is_fractional"]

# Classes of the largest common data set of images, ImageNet-21k, and some room.
_MOST = 100_000


def count_classes(df: DataFrame, label: str) -> int:
    """Return one more than the largest label of a table. Floats must be whole; null and NaN are ignored.

    Raises
    ------
    LabelError
        The column is missing, or its values are no classes 0, 1, ....
    """
    wanted = "label_columns must name a column of classes, whole numbers from 0"
    if label not in df.columns:
        raise LabelError(f"{wanted}, got {label!r}. The table has the columns {', '.join(df.columns)}")
    kind = df.schema[label].dataType
    if isinstance(kind, BooleanType):
        return 2
    if not isinstance(kind, (IntegralType, FractionalType)):
        raise LabelError(
            f"{wanted}, got {label!r} of type {kind.simpleString()}. Number the classes first, for example with "
            "pyspark.ml.feature.StringIndexer, and cast the numbers to int"
        )
    column = _number(label) if isinstance(kind, FractionalType) else F.col(quoted(label))
    row: Any = df.agg(F.min(column), F.max(column), F.max(F.when(column != F.floor(column), column))).first()
    low, high, fraction = row
    if fraction is not None:
        raise LabelError(f"{wanted}, got {fraction} in {label!r}. Choose a column of classes")
    if low is None or low < 0 or high >= _MOST:
        raise LabelError(f"{wanted} and below {_MOST:,}, got values from {low} to {high} in {label!r}.")
    return max(2, int(high) + 1)


def is_fractional(df: DataFrame, label: str) -> bool:
    """Check whether a label is a float, double or decimal."""
    return label in df.columns and isinstance(df.schema[label].dataType, FractionalType)


def integer_labels(df: DataFrame, *, label: str, convert: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """Cast whole numbers of a fractional label to integers, then convert the table. NaN becomes null."""
    return convert(df.withColumn(label, _number(label).cast("bigint")) if is_fractional(df, label) else df)


def _number(label: str) -> Column:
    """Return a fractional label as a double that is null for NaN."""
    column = F.col(quoted(label)).cast("double")
    return F.when(~F.isnan(column), column)
