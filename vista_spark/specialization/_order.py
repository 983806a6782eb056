"""Stream and order of frames as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import NumericType, TimestampNTZType, TimestampType

from udfs.driver import quoted
from vista_spark.errors import ColumnError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["order_of", "stream_of"]


def stream_of(group: str | None) -> Column:
    """Return the name of each frame's stream; a null differs from the empty text."""
    if not group:
        return F.lit("")
    return F.coalesce(F.concat(F.lit("="), F.col(quoted(group)).cast("string")), F.lit(""))


def order_of(dataset: DataFrame, order: str) -> Column:
    """Return the order of frames as a double."""
    kind, value = dataset.schema[order].dataType, F.col(quoted(order))
    if isinstance(kind, TimestampNTZType):
        # As instants of the session's time zone, an hour would be missing in spring.
        since = value - F.to_timestamp_ntz(F.lit("1970-01-01 00:00:00"))
        return since.cast("interval second").cast("decimal(20,6)").cast("double")
    if isinstance(kind, TimestampType):
        return F.unix_micros(value) / F.lit(1e6)
    if not isinstance(kind, NumericType):
        raise ColumnError(f"column {order!r} must be a number or a timestamp, got {kind.simpleString()}.")
    return value.cast("double")
