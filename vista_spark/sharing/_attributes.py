"""Attributes of images: label columns, their classes, and the measured accuracy of their predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, IntegralType, StringType

from optimizer.variants import wilson_interval
from udfs.driver import check_present, quoted
from vista_spark.errors import ColumnError, EmptyInputError, LabelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

__all__ = ["SharedAttribute", "accuracies", "check_labels", "class_places", "learned_attributes"]

_MOST_CLASSES = 1_000


@dataclass(frozen=True, slots=True)
class SharedAttribute:
    """An attribute that a shared model predicts.

    Parameters
    ----------
    name : str
        Label column, and name of the session that serves it.
    kind : str
        Spark type of the labels: boolean, tinyint, smallint, int, bigint or string.
    classes : tuple
        Labels in ascending order, which is the order of the head's outputs.
    majority : object
        Most frequent label of the training rows; of several, the first in ascending order.
    train_rows, valid_rows : int
        Number of rows with a label.
    accuracy : float
        Share of correct predictions on the validation rows.
    baseline : float
        Share of the validation rows with the label `majority`.
    """

    name: str
    kind: str
    classes: tuple[Any, ...]
    majority: Any
    train_rows: int
    valid_rows: int = 0
    accuracy: float = 0.0
    baseline: float = 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Confidence interval of the accuracy, 95 %."""
        return wilson_interval(round(self.accuracy * self.valid_rows), self.valid_rows)


def check_labels(df: DataFrame, names: Sequence[str], what: str) -> dict[str, str]:
    """Return the Spark type of each label column.

    Raises
    ------
    ColumnError, LabelError
        A column is missing, twice in the list, or of a type without classes.
    """
    if not names or len(set(names)) < len(names):
        raise ColumnError(f"labelCols must be at least one column, each once, got {list(names)}.")
    check_present(df, names, what)
    kinds = {name: df.schema[name].dataType for name in names}
    for name, kind in kinds.items():
        # A string with a collation is not equal to StringType().
        if not isinstance(kind, BooleanType | IntegralType) and kind != StringType():
            raise LabelError(
                f"labelCols must be boolean, integer or string, got {kind.simpleString()} for {name!r} of {what}. "
                f'Cast it: df.withColumn({name!r}, col({name!r}).cast("string")).'
            )
    return {name: kind.simpleString() for name, kind in kinds.items()}


def learned_attributes(df: DataFrame, kinds: dict[str, str]) -> list[SharedAttribute]:
    """Count the classes of each label column in one query.

    The labels of all columns are counted in one shuffle, which spills to disk, and the driver collects at most as many
    as the attributes may have together. A column of identifiers is refused at the same cost.

    Raises
    ------
    LabelError
        A column has fewer than two classes, or too many.
    """
    labels = (F.struct(F.lit(name).alias("name"), F.col(quoted(name)).cast("string").alias("label")) for name in kinds)
    counts = df.select(F.inline(F.array(*labels))).where("label is not null").groupBy("name", "label").count()
    rows: dict[str, dict[Any, int]] = {name: {} for name in kinds}
    # If the limit leaves a label out, one of the columns has too many among the others.
    for name, text, count in counts.limit(len(kinds) * _MOST_CLASSES + 1).collect():
        rows[name][_label(text, kinds[name])] = count
    for name, counted in rows.items():
        if len(counted) > _MOST_CLASSES:
            raise LabelError(
                f"labelCols must have at most {_MOST_CLASSES:,} classes each, got more in {name!r}. Leave the column "
                "out, or group its values."
            )
    attributes = []
    for name, counted in rows.items():
        classes = tuple(sorted(counted))
        if len(classes) < 2:
            got = f"only {classes[0]!r}" if classes else "none"
            raise LabelError(
                f"labelCols must have at least two classes each in train, got {got} in {name!r}. Leave the column out, "
                "or add rows of another class."
            )
        majority = max(classes, key=counted.__getitem__)
        attributes.append(SharedAttribute(name, kinds[name], classes, majority, sum(counted.values())))
    return attributes


def _label(text: str, kind: str) -> bool | int | str:
    """Return a label that Spark cast to a string."""
    if kind == "boolean":
        return text == "true"
    return text if kind == "string" else int(text)


def class_places(attributes: Sequence[SharedAttribute]) -> Column:
    """Return an array of the places of the labels among the classes of their attributes, -1 for null."""
    places = []
    for attribute in attributes:
        classes = F.array(*(F.lit(label).cast(attribute.kind) for label in attribute.classes))
        place = F.array_position(classes, F.col(quoted(attribute.name))).cast("int")
        places.append(F.coalesce(place - 1, F.lit(-1)))
    return F.array(*places)


def accuracies(predicted: DataFrame, attributes: Sequence[SharedAttribute], columns: Sequence[str]) -> list[Any]:
    """Count, in one job, the rows with a label and a prediction, and those that prediction and majority hit.

    Raises
    ------
    EmptyInputError
        An attribute has no such row.
    """
    facts = []
    for attribute, column in zip(attributes, columns, strict=True):
        label, guess = F.col(quoted(attribute.name)), F.col(quoted(column))
        usable = label.isNotNull() & guess.isNotNull()
        majority = F.lit(attribute.majority).cast(attribute.kind)
        facts.append(F.array(*(F.count_if(usable & hit) for hit in (F.lit(True), label == guess, label == majority))))
    row = predicted.agg(*facts).first()
    assert row is not None  # an aggregate of all rows
    for attribute, (rows, *_) in zip(attributes, row, strict=True):
        if not rows:
            raise EmptyInputError(
                f"valid must have a row with a readable image and a label in {attribute.name!r}, got none."
            )
    return list(row)
