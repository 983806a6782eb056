"""Tables of a transfer: validation, cleaning and joins before or after inference (Vista, Figure 5)."""

from __future__ import annotations

import logging
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    NumericType,
    StringType,
    StructType,
)

from udfs.driver import check_present, id_columns, id_hint, quoted
from vista_spark.errors import ColumnError, DuplicateIdError, EmptyInputError, LabelError, MissingIdError
from vista_spark.transfer._columns import NULL_FEATURE, Columns, first_missing, is_missing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from optimizer.memory import Join

__all__ = ["Matched", "match"]

_LOG = logging.getLogger(__name__)

# Names of the training table's own columns.
_RESERVED = ("image_error", "transfer_")
_COMPLETE = "transfer_complete"

# Labels from which on they are looked at, and how many times more than the classes that occur they may be.
_CLASSES, _CLASSES_PER_LABEL = 1000, 20

# Images whose size is measured.
_SAMPLED = 16


@dataclass(frozen=True, slots=True)
class Matched:
    """Two tables that share ids, one row per id in each.

    ``structured`` has the id, the label (a number where it was a boolean), structured features, and what else the
    downstream model reads, in complete rows only; ``images`` has the id and the image. ``classes`` are counted as Spark
    ML counts them: the largest label + 1.
    """

    structured: DataFrame
    images: DataFrame
    on: str
    rows: int
    classes: int
    dropped: Mapping[str, int]

    def joined(self, other: DataFrame, how: Join) -> DataFrame:
        """Join the structured rows with the images, or with the features made of them.

        With ``"broadcast"`` the structured table goes to every executor; with ``"shuffle"`` both tables are shuffled by
        the id and merged.
        """
        return other.join(self.structured.hint("broadcast" if how == "broadcast" else "merge"), self.on)

    def width(self, features: Sequence[str]) -> int:
        """Count the structured features, those within vectors one by one."""
        vectors = [name for name in features if isinstance(self.structured.schema[name].dataType, VectorUDT)]
        if not vectors:
            return len(features)
        sizes = [F.size(vector_to_array(F.col(quoted(name)))).alias(f"c{place}") for place, name in enumerate(vectors)]
        lengths = self.structured.select(*sizes).first()
        return len(features) - len(vectors) + sum(lengths or ())

    def image_bytes(self, image: str) -> int:
        """Average the encoded bytes of the first few images; 0 where the column holds paths."""
        column = F.col(quoted(image))
        kind = self.images.schema[image].dataType
        if isinstance(kind, (StructType, BinaryType)):
            length = _octets(column, kind)
        elif isinstance(kind, VectorUDT):
            length = F.when(column.isNotNull(), F.size(vector_to_array(column)) * F.lit(8))
        elif isinstance(kind, ArrayType) and isinstance(kind.elementType, (StructType, BinaryType)):
            inner = kind.elementType
            sizes = F.transform(column, lambda image: F.coalesce(_octets(image, inner), F.lit(0)).cast("long"))
            length = F.aggregate(sizes, F.lit(0).cast("long"), operator.add)
        elif isinstance(kind, ArrayType) and isinstance(kind.elementType, StringType):
            return 0
        elif isinstance(kind, ArrayType):
            length = F.size(F.flatten(column) if isinstance(kind.elementType, ArrayType) else column) * F.lit(8)
        else:
            return 0
        mean = self.images.select(length.alias("bytes")).limit(_SAMPLED).agg(F.avg("bytes").alias("bytes")).first()
        return int(mean["bytes"] or 0) if mean is not None else 0


def match(structured: DataFrame, images: DataFrame, columns: Columns, errors: str, *, classification: bool) -> Matched:
    """Check the tables and match their ids; only ids, labels and nulls are read, no image.

    With ``errors="drop"``, leave out rows with a null id, label or feature, and rows without a counterpart. With
    ``classification`` the label needs two classes.

    Raises
    ------
    ColumnError, EmptyInputError, DuplicateIdError, MissingIdError, LabelError
        See :mod:`vista_spark.errors`.
    """
    _check_columns(structured, images, columns)
    dropped: dict[str, int] = {}
    label = F.col(quoted(columns.label))
    if isinstance(structured.schema[columns.label].dataType, BooleanType):
        label = label.cast("double").alias(columns.label)  # Spark ML learns numbers
    table = structured.select(
        F.col(quoted(columns.on)),
        label,
        *(F.col(quoted(name)) for name in columns.inputs),
        _complete(structured, columns).alias(_COMPLETE),
    )
    right = images.select(*(F.col(quoted(name)) for name in (columns.on, columns.image)))
    right = right.where(F.col(quoted(columns.on)).isNotNull())
    # This comes first, so that tables without a common id are refused early. Distinct ids keep the join small where an
    # id is there many times, which is refused below.
    matched = (
        table.join(right.select(F.col(quoted(columns.on))).distinct(), columns.on)
        .agg(F.count("*").alias("ids"), F.count_if(_COMPLETE).alias("rows"))
        .first()
    )
    assert matched is not None
    if not matched["ids"]:
        _refuse_strangers(structured, images, columns)
    complete, classes = _check_structured(table, columns, errors, dropped, classification=classification)
    images_ids = _check_images(images, columns, errors, dropped)
    left = table.where(_COMPLETE).drop(_COMPLETE)
    if not matched["rows"]:
        raise EmptyInputError(
            f"the tables share no {columns.on!r}: {_some(left, columns.on)} against {_some(right, columns.on)}"
        )
    _settle(errors, dropped, "structured row without an image", complete - matched["rows"])
    # An image whose structured row has a null label or feature is counted there, and not once more here.
    _settle(errors, dropped, "image without a structured row", images_ids - matched["ids"])
    return Matched(left, right, columns.on, int(matched["rows"]), classes, dropped)


def _refuse_strangers(structured: DataFrame, images: DataFrame, columns: Columns) -> None:
    """Raise the error about tables without a common id, and name the column that would match.

    Tables without an id at all have another error, which a later check raises.
    """
    on = columns.on
    ids, others = (id_columns(table.select(quoted(on))).get(on, []) for table in (structured, images))
    if not any(each is not None for each in ids) or not any(each is not None for each in others):
        return
    hint = id_hint(id_columns(structured), others, on, "the structured table")
    hint = hint or id_hint(id_columns(images, [columns.image]), ids, on, "the image table")
    raise EmptyInputError(
        f"the tables share no {on!r}: {[each for each in ids if each is not None][:3]} against "
        f"{[each for each in others if each is not None][:3]}{hint and '.' + hint}"
    )


def _check_columns(structured: DataFrame, images: DataFrame, columns: Columns) -> None:
    check_present(structured, [columns.on, columns.label, *columns.inputs], "the structured table")
    check_present(images, [columns.on], "the image table")
    check_present(images, [columns.image], "the image table")
    _check_roles(columns)
    _check_types(structured, images, columns)


def _check_roles(columns: Columns) -> None:
    roles = (columns.on, columns.label, columns.image, *columns.structured)
    for name in roles:
        if roles.count(name) > 1:
            raise ColumnError(f"id, label, image and features must be different columns, got {name!r} twice.")
        if name.startswith(_RESERVED):
            raise ColumnError(
                f"column names must not start with {' or '.join(_RESERVED)}, which the transfer reserves, got {name!r}."
            )
    if "." in columns.label:
        raise ColumnError(
            f"label_column must not have a dot in its name, which Spark ML cannot read, got {columns.label!r}."
        )


def _check_types(structured: DataFrame, images: DataFrame, columns: Columns) -> None:
    left, right = structured.schema[columns.on].dataType, images.schema[columns.on].dataType
    if left != right:
        raise ColumnError(
            f"{columns.on!r} is {left.simpleString()} in the structured table and {right.simpleString()} in the image "
            "table: cast one of them"
        )
    label = structured.schema[columns.label].dataType
    is_indexed = columns.learned != columns.label
    if not isinstance(label, (NumericType, BooleanType)) and not is_indexed:
        raise ColumnError(
            f"the label {columns.label!r} is {label.simpleString()}, and Spark ML learns numbers: "
            "index it first, with pyspark.ml.feature.StringIndexer, or as the first stage of a downstream Pipeline"
        )
    for name in columns.structured:
        kind = structured.schema[name].dataType
        if isinstance(columns.features, str) and not isinstance(kind, VectorUDT):
            raise ColumnError(
                f"feature_columns {name!r} is {kind.simpleString()}, not a Spark ML vector: "
                "give the numeric columns as a list instead, or assemble them with VectorAssembler"
            )
        if not isinstance(columns.features, str) and not isinstance(kind, (NumericType, BooleanType, VectorUDT)):
            raise ColumnError(
                f"structured features must be numbers, got {name!r} of type {kind.simpleString()}: encode it first, "
                f"or make texts that are no numbers null, with try_cast(`{name}` AS double)."
            )


def _check_structured(
    table: DataFrame, columns: Columns, errors: str, dropped: dict[str, int], *, classification: bool
) -> tuple[int, int]:
    on, label = F.col(quoted(columns.on)), F.col(quoted(columns.label))
    # Each row is counted once, under the first of its defects.
    unlabelled = on.isNotNull() & is_missing(table, columns.label)
    counts = table.agg(
        F.count("*").alias("rows"),
        F.count(on).alias("ids"),
        F.countDistinct(on).alias("distinct"),
        F.count_if(unlabelled).alias("unlabelled"),
        F.count_if(_COMPLETE).alias("complete"),
        F.countDistinct(F.when(F.col(_COMPLETE), label)).alias("labels"),
        F.max(F.when(F.col(_COMPLETE), label.try_cast("double"))).alias("largest"),
        F.first(F.when(F.col(_COMPLETE) & ~_is_class(label), label), ignorenulls=True).alias("no_class"),
    ).first()
    assert counts is not None
    if not counts["rows"]:
        raise EmptyInputError("the structured table must have rows, got none.")
    _check_distinct(table, columns.on, counts["ids"], counts["distinct"], "structured")
    _settle(errors, dropped, "structured row with a null id", counts["rows"] - counts["ids"])
    if counts["unlabelled"] and errors == "raise":
        raise LabelError(f'{counts["unlabelled"]} rows have no label {columns.label!r}; errors="drop" leaves them out')
    _settle(errors, dropped, "null label", counts["unlabelled"])
    if counts["ids"] - counts["unlabelled"] - counts["complete"]:
        for name, count in _missing_features(table.where(on.isNotNull() & ~unlabelled), columns):
            _settle(errors, dropped, f"{NULL_FEATURE} {name!r}", count)
    if not counts["complete"]:
        raise EmptyInputError(f"the structured table must have complete rows, got none ({_listed(dropped)}).")
    if classification and counts["labels"] < 2:
        raise LabelError(
            f"the label {columns.label!r} has one class among {counts['complete']} complete rows: classifiers need two"
        )
    _check_lengths(table.where(_COMPLETE), columns)
    if classification and columns.learned == columns.label and counts["no_class"] is not None:
        raise LabelError(
            f"the label {columns.label!r} has the value {counts['no_class']}: Spark ML's classifiers learn classes "
            "numbered 0, 1, 2, ... Number them, with pyspark.ml.feature.StringIndexer (--categories "
            f"{columns.label}), or give a downstream model for regression"
        )
    if classification and columns.learned == columns.label:
        _check_largest(table, columns.label, counts["largest"], int(counts["labels"]))
    if isinstance(table.schema[columns.label].dataType, StringType):  # the downstream pipeline numbers them
        return int(counts["complete"]), int(counts["labels"])
    return int(counts["complete"]), max(0, int(counts["largest"])) + 1


def _check_lengths(table: DataFrame, columns: Columns) -> None:
    """Raise ``ColumnError`` if a column has vectors of several lengths, of which Spark ML makes no feature vector."""
    vectors = [name for name in columns.inputs if isinstance(table.schema[name].dataType, VectorUDT)]
    if not vectors:
        return
    sizes = [F.size(vector_to_array(F.col(quoted(name)))) for name in vectors]
    ends = (end(size) for size in sizes for end in (F.min, F.max))
    lengths = table.agg(*(end.alias(f"c{place}") for place, end in enumerate(ends))).first()
    assert lengths is not None
    for name, shortest, longest in zip(vectors, lengths[::2], lengths[1::2], strict=True):
        if shortest != longest:
            raise ColumnError(
                f"structured vectors must have one length per column, got {name!r} with lengths from {shortest} to "
                f"{longest}. Pad them, or filter the rows of another length: "
                f"size(vector_to_array({name})) = {longest}"
            )


def _check_largest(table: DataFrame, label: str, largest: float | None, classes: int) -> None:
    """Raise ``LabelError`` if the largest label is unlikely to be the index of a class.

    Spark ML has parameters for each class from 0 to the largest label.
    """
    attributes = table.schema[label].metadata.get("ml_attr", {})
    has_classes = "num_vals" in attributes or "vals" in attributes
    if largest is None or has_classes or largest < max(_CLASSES, _CLASSES_PER_LABEL * classes):
        return
    raise LabelError(
        f"the label {label!r} must be the index of a class, got values up to {largest:.17g} with {classes} distinct "
        "ones: Spark ML's classifiers learn a class for every number below. Number them, with "
        f"pyspark.ml.feature.StringIndexer (--categories {label}), or give a downstream model for regression"
    )


def _is_class(label: Column) -> Column:
    number = label.try_cast("double")
    return number.isNull() | ((number >= 0) & (number == F.floor(number)))


def _missing_features(table: DataFrame, columns: Columns) -> list[tuple[str, int]]:
    """Count rows by the first feature that they have no value of, in the order of the features."""
    first = first_missing(table, columns.required).alias("feature")
    counted = table.select(first).where("feature is not null").groupBy("feature").count().collect()
    counts = {row["feature"]: int(row["count"]) for row in counted}
    return [(name, counts[name]) for name in columns.required if name in counts]


def _check_images(df: DataFrame, columns: Columns, errors: str, dropped: dict[str, int]) -> int:
    on = F.col(quoted(columns.on))
    counts = df.agg(F.count("*").alias("rows"), F.count(on).alias("ids"), F.countDistinct(on).alias("distinct")).first()
    assert counts is not None
    if not counts["rows"]:
        raise EmptyInputError("the image table must have rows, got none.")
    _check_distinct(df, columns.on, counts["ids"], counts["distinct"], "image")
    _settle(errors, dropped, "image with a null id", counts["rows"] - counts["ids"])
    return int(counts["ids"])


def _check_distinct(df: DataFrame, on: str, ids: int, distinct: int, table: str) -> None:
    if ids == distinct:
        return
    column = F.col(quoted(on))
    counted = df.where(column.isNotNull()).groupBy(column).agg(F.count("*").alias("transfer_rows"))
    twice = counted.where("transfer_rows > 1").orderBy(column)
    raise DuplicateIdError(
        f"{ids - distinct} rows of the {table} table repeat an {on!r}, for example {_some(twice, on)}: "
        "nothing tells which one is meant; keep one row per id"
    )


def _settle(errors: str, dropped: dict[str, int], reason: str, count: int) -> None:
    """Count rows to be left out, or raise."""
    if not count:
        return
    if errors == "raise":
        raise MissingIdError(f'{count} rows cannot be used ({reason}). Set errors="drop" to leave them out')
    _LOG.warning("left out: %s (%d rows)", reason, count)
    dropped[reason] = count


def _complete(df: DataFrame, columns: Columns) -> Column:
    """Build the condition that a row has an id, a label and all its features."""
    return first_missing(df, (columns.on, columns.label, *columns.required)).isNull()


def _octets(image: Column, kind: DataType) -> Column:
    return F.octet_length(image.getField("data") if isinstance(kind, StructType) else image)


def _listed(dropped: Mapping[str, int]) -> str:
    return ", ".join(f"{reason}: {count}" for reason, count in dropped.items())


def _some(df: DataFrame, column: str) -> Sequence[object]:
    return [row[0] for row in df.select(F.col(quoted(column))).limit(3).collect()]
