"""Number of classes of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, IntegralType

from cerebro_spark.errors import LabelError
from udfs.driver import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["count_classes"]

# Classes of the largest common data set of images, ImageNet-21k, and some room.
_MOST = 100_000


def count_classes(df: DataFrame, label: str) -> int:
    """Return one more than the largest label of a table.

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
    if not isinstance(kind, IntegralType):
        raise LabelError(
            f"{wanted}, got {label!r} of type {kind.simpleString()}. Number the classes first, for example with "
            "pyspark.ml.feature.StringIndexer, and cast the numbers to int"
        )
    column = F.col(quoted(label))
    row: Any = df.agg(F.min(column), F.max(column)).first()
    low, high = row
    if low is None or low < 0 or high >= _MOST:
        raise LabelError(f"{wanted} and below {_MOST:,}, got values from {low} to {high} in {label!r}.")
    return max(2, int(high) + 1)
