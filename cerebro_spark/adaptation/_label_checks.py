"""Detection of labels that the models have no output for, on the driver before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegralType

from cerebro_spark.errors import LabelError
from udfs.driver import is_numeric, quoted
from udfs.shards import load_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from udfs.shards import GrowingData, Tensors
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
    """Find the smallest and the largest number of each label in one job; vectors and arrays of fractions are skipped.

    Rows without a weight above 0 are left out.
    """
    wanted = {name: ends for name in label_columns if (ends := _ends(name, batch.schema[name].dataType)) is not None}
    if not wanted:
        return ()
    if weight_column is not None:
        batch = batch.where(F.col(quoted(weight_column)) > 0)
    record = F.col(quoted(id_column)).alias("record")
    columns = [
        choose(F.when(value.isNotNull(), F.struct(value.alias("value"), record))).alias(f"{place} {end}")
        for place, ends in enumerate(wanted.values())
        for end, choose, value in (("least", F.min, ends[0]), ("most", F.max, ends[1]))
    ]
    (row,) = batch.select(*columns).collect()
    return tuple(
        Extreme(name, row[f"{place} {end}"]["value"], row[f"{place} {end}"]["record"])
        for place, name in enumerate(wanted)
        for end in ("least", "most")
        if row[f"{place} {end}"] is not None
    )


def check_labels(extremes: Sequence[Extreme], data: GrowingData, session: Session) -> None:
    """Evaluate a model on a record with each of some labels, and raise if it has no output for one.

    The message of the LabelError names the record, the label and the classes.
    """
    if not extremes:
        return
    row = load_rows(data, "train", 1)
    outputs = session.predict(row.inputs)
    places = {group.name: place for place, group in enumerate(data.labels)}
    for extreme in extremes:
        place = places[extreme.column]
        # An error that a label of 0 causes too is not due to the label.
        if _refusal(session, row, place, 0) is not None:
            continue
        why = _refusal(session, row, place, extreme.value)
        if why is not None:
            shape = outputs[min(place, len(outputs) - 1)].shape[1:]
            model = f"{shape[0]} classes, 0 to {shape[0] - 1}" if len(shape) == 1 else f"outputs of the shape {shape}"
            raise LabelError(
                f"label {extreme.column!r} of record {extreme.record!r} must have an output of the model, which has "
                f"{model}, "
                f"got {extreme.value:g} ({why}): correct the label, leave out the record, or begin a campaign with "
                "another "
                "name and models with more classes"
            )


def _ends(name: str, kind: DataType) -> tuple[Column, Column] | None:
    column = F.col(quoted(name))
    if is_numeric(kind):
        known = column if isinstance(kind, IntegralType) else F.when(~F.isnan(column.cast("double")), column)
        value = known.cast("double")
        return value, value
    while isinstance(kind, ArrayType) and isinstance(kind.elementType, ArrayType):
        column, kind = F.flatten(column), kind.elementType
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, IntegralType):
        return F.array_min(column).cast("double"), F.array_max(column).cast("double")
    return None


def _refusal(session: Session, row: Tensors, place: int, value: float) -> str | None:
    """Return the error that the model raises for a label; ``None`` without one."""
    labels = [array.copy() for array in row.labels]
    labels[place].flat[0] = value
    try:
        session.evaluate(replace(row, labels=tuple(labels)))
    except Exception as error:  # noqa: BLE001 - the user's loss may raise anything
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return None
