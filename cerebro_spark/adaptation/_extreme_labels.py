"""Search for the labels of a batch to try on a model, before frozen layers are computed and models trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegralType

from cerebro_spark.hopper import LabelSample
from udfs.driver import is_numeric, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

__all__ = ["find_extremes"]


def find_extremes(
    batch: DataFrame, label_columns: Sequence[str], id_column: str, weight_column: str | None
) -> tuple[LabelSample, ...]:
    """Find the smallest and the largest number of each label column in one Spark job.

    Vectors and arrays of fractions are skipped, since they are not class numbers. Rows without a weight above 0 are
    ignored.
    """
    ranges = {
        name: least_and_most
        for name in label_columns
        if (least_and_most := _range_of_row(name, batch.schema[name].dataType)) is not None
    }
    if not ranges:
        return ()
    if weight_column is not None:
        batch = batch.where(F.col(quoted(weight_column)) > 0)
    record = F.col(quoted(id_column)).alias("record")
    columns = [
        choose(F.when(value.isNotNull(), F.struct(value.alias("value"), record))).alias(f"{place} {end}")
        for place, (least, most) in enumerate(ranges.values())
        for end, choose, value in (("least", F.min, least), ("most", F.max, most))
    ]
    (row,) = batch.select(*columns).collect()
    return tuple(
        LabelSample(name, row[f"{place} {end}"]["value"], row[f"{place} {end}"]["record"])
        for place, name in enumerate(ranges)
        for end in ("least", "most")
        if row[f"{place} {end}"] is not None
    )


def _range_of_row(name: str, kind: DataType) -> tuple[Column, Column] | None:
    """Return the smallest and the largest number of a label in each row; ``None`` if the label is no class number."""
    column = F.col(quoted(name))
    if is_numeric(kind):
        without_nan = column if isinstance(kind, IntegralType) else F.when(~F.isnan(column.cast("double")), column)
        value = without_nan.cast("double")
        return value, value
    while isinstance(kind, ArrayType) and isinstance(kind.elementType, ArrayType):
        column, kind = F.flatten(column), kind.elementType
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, IntegralType):
        return F.array_min(column).cast("double"), F.array_max(column).cast("double")
    return None
