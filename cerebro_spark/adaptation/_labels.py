"""Labels of a batch that the models have no output for: found on the driver, before anything is computed for them."""

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

__all__ = ["Extreme", "check_labels", "extremes"]


@dataclass(frozen=True, slots=True)
class Extreme:
    """The smallest or the largest label of a batch, and a record that has it.

    Parameters
    ----------
    column : str
    value : float
    record : object
        Its id.
    """

    column: str
    value: float
    record: Any


def extremes(
    batch: DataFrame, label_columns: Sequence[str], id_column: str, weight_column: str | None
) -> tuple[Extreme, ...]:
    """Find the smallest and the largest number of each label, in one job; vectors and arrays of fractions have none.

    Parameters
    ----------
    batch : DataFrame
    label_columns : sequence of str
    id_column : str
    weight_column : str or None
        Rows without a weight above 0 are left out.
    """
    wanted = {name: ends for name in label_columns if (ends := _ends(name, batch.schema[name].dataType)) is not None}
    if not wanted:
        return ()
    if weight_column is not None:
        batch = batch.where(F.col(quoted(weight_column)) > 0)
    record = F.col(quoted(id_column)).alias("record")
    found = [
        choose(F.when(end.isNotNull(), F.struct(end.alias("value"), record))).alias(f"{place} {which}")
        for place, ends in enumerate(wanted.values())
        for which, choose, end in (("least", F.min, ends[0]), ("most", F.max, ends[1]))
    ]
    (row,) = batch.select(*found).collect()
    return tuple(
        Extreme(name, row[f"{place} {which}"]["value"], row[f"{place} {which}"]["record"])
        for place, name in enumerate(wanted)
        for which in ("least", "most")
        if row[f"{place} {which}"] is not None
    )


def check_labels(found: Sequence[Extreme], data: GrowingData, session: Session) -> None:
    """Have a model see a record with each of some labels, and raise where it has no output for one.

    Parameters
    ----------
    found : sequence of Extreme
    data : GrowingData
        Some record of it is what the model sees.
    session : Session

    Raises
    ------
    LabelError
        The message names the record, the label and the classes.
    """
    if not found:
        return
    row = load_rows(data, "train", 1)
    outputs = session.predict(row.inputs)
    places = {group.name: place for place, group in enumerate(data.labels)}
    for extreme in found:
        place = places[extreme.column]
        # What is wrong with a label of 0 as well, is not wrong with the label.
        if _refusal(session, row, place, 0) is not None:
            continue
        why = _refusal(session, row, place, extreme.value)
        if why is not None:
            shape = outputs[min(place, len(outputs) - 1)].shape[1:]
            model = f"{shape[0]} classes, 0 to {shape[0] - 1}" if len(shape) == 1 else f"outputs of the shape {shape}"
            raise LabelError(
                f"the label {extreme.column!r} of record {extreme.record!r} is {extreme.value:g}, and the model has "
                f"{model} ({why}): correct the label, leave the record out, or begin anew under another name with "
                "models of more classes"
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
    """Give what the model raises at a label; ``None`` where it takes it."""
    labels = [array.copy() for array in row.labels]
    labels[place].flat[0] = value
    try:
        session.evaluate(replace(row, labels=tuple(labels)))
    except Exception as error:  # noqa: BLE001 - of the user's loss, as a rule
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return None
