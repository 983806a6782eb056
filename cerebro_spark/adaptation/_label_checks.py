"""Detection of labels for which the models have no output, before frozen layers are computed and models trained.

A classifier with three outputs accepts the labels 0, 1 and 2. Only the smallest and the largest label of a batch of
records have to be tried: a label between them has an output if both have one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegralType

from cerebro_spark.errors import LabelError
from cerebro_spark.hopper import label_refusal
from udfs.driver import is_numeric, quoted
from udfs.shards import load_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from udfs.shards import GrowingData
    from udfs.training import Session

__all__ = ["Extreme", "check_labels", "find_extremes"]


@dataclass(frozen=True, slots=True)
class Extreme:
    """Smallest or largest label of a batch, with a record that has it."""

    column: str
    value: float
    record: Any


def find_extremes(
    batch: DataFrame, label_columns: Sequence[str], id_column: str, weight_column: str | None
) -> tuple[Extreme, ...]:
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
        Extreme(name, row[f"{place} {end}"]["value"], row[f"{place} {end}"]["record"])
        for place, name in enumerate(ranges)
        for end in ("least", "most")
        if row[f"{place} {end}"] is not None
    )


def check_labels(extremes: Sequence[Extreme], data: GrowingData, session: Session) -> None:
    """Evaluate a model on a training record with each extreme label in place of its own.

    Raises
    ------
    LabelError
        The model has no output for a label. The message names the label, its record and the classes of the model.
    """
    if not extremes:
        return
    row = load_rows(data, "train", 1)
    outputs = session.predict(row.inputs)
    places = {group.name: place for place, group in enumerate(data.labels)}
    for extreme in extremes:
        place = places[extreme.column]
        # A model that raises an error for class 0 as well, which every classifier has, fails for another reason.
        if label_refusal(session, row, place, 0) is not None:
            continue
        error = label_refusal(session, row, place, extreme.value)
        if error is not None:
            shape = outputs[min(place, len(outputs) - 1)].shape[1:]
            # A single output tells two classes apart.
            last = max(shape[0], 2) - 1 if len(shape) == 1 else None
            rule = f"have an output of shape {shape} in" if last is None else f"be in 0..{last}, the classes of"
            raise LabelError(
                f"label {extreme.column!r} must {rule} the model, got {extreme.value:g} in record "
                f"{extreme.record!r} ({error}): correct the label, leave out the record, or start a campaign with "
                "another name and models with more classes"
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
