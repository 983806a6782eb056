"""Validation that the rows of a fit have every class of the label."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from cerebro_spark.errors import LabelError
from udfs.driver import quoted
from udfs.shards import load_rows
from udfs.training import view_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from udfs.shards import PreparedData
    from udfs.training import Session

__all__ = ["MISSING_CLASSES", "check_classes"]

MISSING_CLASSES = ("raise", "allow")

# Classes that a message lists.
_LISTED = 10


def check_classes(df: DataFrame, prepared: PreparedData, session: Session) -> None:
    """Raise ``LabelError`` where a class of the first label has no row.

    The classes are those in the column's metadata, as ``StringIndexer`` writes it; else those that the network has
    outputs for, of one output two.
    """
    name = prepared.labels[0].name
    (outputs, *_) = session.predict(load_rows(prepared, "train", 2, view=view_of(session)).inputs)
    size = outputs[0].size
    task = session.sums.task
    if task.kind not in {"binary", "multiclass"} or task.tokens is not None or task.labels in {"one-hot", "-1/+1"}:
        return
    values = df.schema[name].metadata.get("ml_attr", {}).get("vals")
    count = len(values) if values else max(size, 2)
    label = F.col(quoted(name)).cast("bigint")
    if prepared.weight_column is not None:
        df = df.where(F.col(quoted(prepared.weight_column)) > 0)
    rows = df.select(label.alias("label")).where(F.col("label").between(0, count - 1)).distinct().collect()
    missing = sorted(set(range(count)) - {row["label"] for row in rows})
    if missing:
        named = [f"{number} ({values[number]!r})" if values else str(number) for number in missing[:_LISTED]]
        more = f" and {len(missing) - _LISTED} more" if len(missing) > _LISTED else ""
        raise LabelError(
            f"label {name!r} has {count} classes, and there is no row to train on of class {', '.join(named)}{more}: a "
            "fold has to have rows of every class. Deal each class's rows to all folds, in a column of fold numbers "
            'for CrossValidator(foldCol=...); or missing_classes="allow" trains without it'
        )
