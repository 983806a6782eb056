"""Checks of ids, labels and tasks, with at most one Spark job each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType, StringType

from cerebro_spark.errors import ColumnError, EmptyInputError, LabelError
from udfs.driver import check_present, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from udfs.training import Task

__all__ = ["check_classes", "check_ids", "check_result_names", "class_numbers", "label_counts", "label_of"]


def check_ids(df: DataFrame, id_column: str, what: str) -> int:
    """Raise ColumnError unless a column has one value for each row, without nulls; return the number of rows.

    Raises
    ------
    EmptyInputError
        There are no rows.
    """
    check_present(df, [id_column], what)
    kind = df.schema[id_column].dataType
    if not isinstance(kind, (NumericType, StringType)):
        raise ColumnError(
            f"id_column must be a column of numbers or strings, got {id_column!r} of {kind.simpleString()}. Make a "
            "column that names each row"
        )
    ids = F.col(quoted(id_column))
    rows, present, different = df.agg(F.count(F.lit(1)), F.count(ids), F.countDistinct(ids)).first() or (0, 0, 0)
    if not rows:
        raise EmptyInputError(f"{what} must have rows, got none.")
    if present < rows:
        raise ColumnError(
            f"id_column must have no nulls, got {id_column!r} with {rows - present} in {what}. Fill them, or leave "
            "these rows out"
        )
    if different < rows:
        examples = df.groupBy(ids).count().where("count > 1").limit(3).collect()
        raise ColumnError(
            f"id_column must have a different value in each row, got {id_column!r} with {rows - different} repeated "
            f"values in {what}, such as {', '.join(repr(row[0]) for row in examples)}. Name a unique column"
        )
    return int(rows)


def check_result_names(id_column: str, names: Sequence[str]) -> None:
    """Raise ColumnError if the id column has the name of a column of the result."""
    if id_column in names:
        raise ColumnError(
            f"id_column must differ from the columns of the result, {', '.join(names)}, got {id_column!r}. Rename it"
        )


def check_classes(task: Task, label_column: str) -> None:
    """Raise LabelError unless each row has one class, written as one number."""
    if task.kind not in {"binary", "multiclass"} or task.tokens is not None:
        actual = "a class for each token" if task.tokens is not None else f"a {task.kind} task"
        raise LabelError(
            f"label column {label_column!r} must have one class for each row, got {actual}. "
            "find_influential_rows takes other labels"
        )
    if task.labels == "one-hot":
        raise LabelError(
            f"label column {label_column!r} must have class numbers, got arrays of class probabilities. Train on the "
            "number of the largest one"
        )
    if task.outputs == "margins":
        raise LabelError(
            f"the network of label column {label_column!r} must have outputs that are probabilities, got margins. "
            "Train it with a loss of logits, such as torch.nn.CrossEntropyLoss"
        )


def label_counts(df: DataFrame, label_column: str, what: str) -> dict[Any, int]:
    """Count the rows of each label; the label of a null is None."""
    check_present(df, [label_column], what)
    counted = df.groupBy(F.col(quoted(label_column)).alias("label")).count().collect()
    return {row["label"]: int(row["count"]) for row in counted}


def class_numbers(labels: NDArray[Any], task: Task, classes: int, label_column: str) -> NDArray[np.int64]:
    """Convert labels in the encoding of a task to class numbers from 0.

    Raises
    ------
    LabelError
        A label is not one of the model's classes.
    """
    values = labels.astype(np.float64)
    numbers = (values + 1) / 2 if task.labels == "-1/+1" else values
    unknown = values[~np.isin(numbers, np.arange(classes))]
    if len(unknown):
        known = [label_of(number, task) for number in range(classes)]
        shown = f"{known[0]} to {known[-1]}" if len(known) > 2 else " and ".join(map(str, known))
        raise LabelError(
            f"label column {label_column!r} must have the classes of the model, {shown}, got {unknown[0]:g}. Leave "
            "such rows out, or train a model with this class"
        )
    return numbers.astype(np.int64)


def label_of(number: int, task: Task) -> int:
    """Return a class number in the encoding of the labels."""
    return 2 * int(number) - 1 if task.labels == "-1/+1" else int(number)
