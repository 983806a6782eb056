"""The two tables of a transfer: checked, cleaned, and joined before or after inference (Vista's Figure 5)."""

from __future__ import annotations

import logging
import operator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.ml.feature import VectorAssembler
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's users know
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DoubleType,
    FloatType,
    NumericType,
    StringType,
    StructType,
)

from udfs.driver import check_present, quoted
from vista_spark.errors import ColumnError, DuplicateIdError, EmptyInputError, LabelError, MissingIdError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from optimizer.memory import Join

__all__ = ["Columns", "Matched", "match"]

_LOG = logging.getLogger(__name__)

# Names of the training table's own columns.
_RESERVED = ("image_error", "transfer_")
_COMPLETE = "transfer_complete"

# Images whose size is measured.
_SAMPLED = 16


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the user's columns.

    Parameters
    ----------
    on : str
        The id, in both tables.
    features : str or tuple of str
        One Spark ML vector, or numeric columns to be assembled.
    label : str
        Numeric.
    image : str
        As :class:`vista_spark.CNNFeaturizer` takes it.
    """

    on: str
    features: str | tuple[str, ...]
    label: str
    image: str

    @property
    def structured(self) -> tuple[str, ...]:
        """The structured feature columns."""
        return (self.features,) if isinstance(self.features, str) else self.features

    def assembler(self, output: str) -> VectorAssembler:
        """Make a stage that assembles the structured features to one vector, of a size that Spark ML knows."""
        # It reads a dot in a name as a field of a struct, unless the name is quoted.
        inputs = [quoted(name) if "." in name else name for name in self.structured]
        return VectorAssembler(inputCols=inputs, outputCol=output)


@dataclass(frozen=True, slots=True)
class Matched:
    """Two tables that share ids, one row per id in each.

    Attributes
    ----------
    structured : DataFrame
        Columns: id, label, structured features. Complete rows only.
    images : DataFrame
        Columns: id, image.
    on : str
        The id.
    rows : int
        Ids that both have.
    classes : int
        As Spark ML counts them: the largest label + 1, labels that no row has included.
    dropped : mapping of str to int
        By the reason for which rows were left out, how many.
    """

    structured: DataFrame
    images: DataFrame
    on: str
    rows: int
    classes: int
    dropped: Mapping[str, int]

    def joined(self, other: DataFrame, how: Join) -> DataFrame:
        """Join the structured rows with the images, or with the features made of them.

        Parameters
        ----------
        other : DataFrame
            With the id.
        how : {"broadcast", "shuffle"}
            The structured table goes to every executor, or both tables are shuffled by the id and merged.
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

    Parameters
    ----------
    structured, images : DataFrame
    columns : Columns
    errors : {"raise", "drop"}
        Policy for rows with a null id, label or feature, and for rows without a counterpart.
    classification : bool
        Whether the label needs two classes.

    Raises
    ------
    ColumnError, EmptyInputError, DuplicateIdError, MissingIdError, LabelError
        See :mod:`vista_spark.errors`.
    """
    _check_columns(structured, images, columns)
    dropped: dict[str, int] = {}
    table = structured.select(
        *(F.col(quoted(name)) for name in (columns.on, columns.label, *columns.structured)),
        _complete(structured, columns).alias(_COMPLETE),
    )
    complete, classes = _check_structured(table, columns, errors, dropped, classification=classification)
    images_ids = _check_images(images, columns, errors, dropped)
    right = images.select(*(F.col(quoted(name)) for name in (columns.on, columns.image)))
    right = right.where(F.col(quoted(columns.on)).isNotNull())
    matched = (
        table.join(right.select(F.col(quoted(columns.on))), columns.on)
        .agg(F.count("*").alias("ids"), F.count_if(_COMPLETE).alias("rows"))
        .first()
    )
    assert matched is not None  # noqa: S101 - an aggregate without groups has one row
    left = table.where(_COMPLETE).drop(_COMPLETE)
    if not matched["rows"]:
        raise EmptyInputError(
            f"the tables share no {columns.on!r}: {_some(left, columns.on)} against {_some(right, columns.on)}"
        )
    _settle(errors, dropped, "structured row without an image", complete - matched["rows"])
    # An image whose structured row has a null label or feature is counted there, and not once more here.
    _settle(errors, dropped, "image without a structured row", images_ids - matched["ids"])
    return Matched(left, right, columns.on, int(matched["rows"]), classes, dropped)


def _check_columns(structured: DataFrame, images: DataFrame, columns: Columns) -> None:
    check_present(structured, [columns.on, columns.label, *columns.structured], "the structured table")
    check_present(images, [columns.on], "the image table")
    check_present(images, [columns.image], "the image table")
    _check_roles(columns)
    _check_types(structured, images, columns)


def _check_roles(columns: Columns) -> None:
    roles = (columns.on, columns.label, columns.image, *columns.structured)
    if not columns.structured:
        raise ColumnError("feature_columns names no column: give one vector column, or the numeric columns")
    for name in roles:
        if roles.count(name) > 1:
            raise ColumnError(f"column {name!r} is named twice among id, label, image and features: each has one role")
        if name.startswith(_RESERVED):
            raise ColumnError(f"column {name!r}: names with {' or '.join(_RESERVED)} are the transfer's own; rename it")
    if "." in columns.label:
        raise ColumnError(f"the label {columns.label!r} has a dot in its name, which Spark ML cannot read: rename it")


def _check_types(structured: DataFrame, images: DataFrame, columns: Columns) -> None:
    left, right = structured.schema[columns.on].dataType, images.schema[columns.on].dataType
    if left != right:
        raise ColumnError(
            f"{columns.on!r} is {left.simpleString()} in the structured table and {right.simpleString()} in the image "
            "table: cast one of them"
        )
    label = structured.schema[columns.label].dataType
    if not isinstance(label, (NumericType, BooleanType)):
        raise ColumnError(
            f"the label {columns.label!r} is {label.simpleString()}, and Spark ML learns numbers: "
            "index it first, with pyspark.ml.feature.StringIndexer"
        )
    for name in columns.structured:
        kind = structured.schema[name].dataType
        if isinstance(columns.features, str) and not isinstance(kind, VectorUDT):
            raise ColumnError(
                f"feature_columns {name!r} is {kind.simpleString()}, not a Spark ML vector: "
                "give the numeric columns as a list instead, or assemble them with VectorAssembler"
            )
        if not isinstance(columns.features, str) and not isinstance(kind, (NumericType, BooleanType, VectorUDT)):
            raise ColumnError(f"structured feature {name!r} is {kind.simpleString()}, not a number: encode it first")


def _check_structured(
    table: DataFrame, columns: Columns, errors: str, dropped: dict[str, int], *, classification: bool
) -> tuple[int, int]:
    on, label = F.col(quoted(columns.on)), F.col(quoted(columns.label))
    # Each row is counted once, under the first of its defects.
    unlabelled = on.isNotNull() & _missing(table, columns.label)
    counts = table.agg(
        F.count("*").alias("rows"),
        F.count(on).alias("ids"),
        F.countDistinct(on).alias("distinct"),
        F.count_if(unlabelled).alias("unlabelled"),
        F.count_if(_COMPLETE).alias("complete"),
        F.countDistinct(F.when(F.col(_COMPLETE), label)).alias("labels"),
        F.max(F.when(F.col(_COMPLETE), label.cast("double"))).alias("largest"),
    ).first()
    assert counts is not None  # noqa: S101 - an aggregate without groups has one row
    if not counts["rows"]:
        raise EmptyInputError("the structured table is empty")
    _check_distinct(table, columns.on, counts["ids"], counts["distinct"], "structured")
    _settle(errors, dropped, "structured row with a null id", counts["rows"] - counts["ids"])
    if counts["unlabelled"] and errors == "raise":
        raise LabelError(f'{counts["unlabelled"]} rows have no label {columns.label!r}; errors="drop" leaves them out')
    _settle(errors, dropped, "null label", counts["unlabelled"])
    _settle(errors, dropped, "null structured feature", counts["ids"] - counts["unlabelled"] - counts["complete"])
    if not counts["complete"]:
        raise EmptyInputError(f"no row of the structured table is complete ({_listed(dropped)})")
    if classification and counts["labels"] < 2:  # noqa: PLR2004 - a classifier tells at least two apart
        raise LabelError(
            f"the label {columns.label!r} has one class among {counts['complete']} complete rows: classifiers need two"
        )
    return int(counts["complete"]), max(0, int(counts["largest"])) + 1


def _check_images(df: DataFrame, columns: Columns, errors: str, dropped: dict[str, int]) -> int:
    on = F.col(quoted(columns.on))
    counts = df.agg(F.count("*").alias("rows"), F.count(on).alias("ids"), F.countDistinct(on).alias("distinct")).first()
    assert counts is not None  # noqa: S101 - an aggregate without groups has one row
    if not counts["rows"]:
        raise EmptyInputError("the image table is empty")
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
        raise MissingIdError(f'{reason}: {count} rows; errors="drop" leaves them out')
    _LOG.warning("left out: %s (%d rows)", reason, count)
    dropped[reason] = count


def _complete(df: DataFrame, columns: Columns) -> Column:
    """Whether a row has an id, a label and all its features."""
    return ~reduce(operator.or_, (_missing(df, name) for name in (columns.on, columns.label, *columns.structured)))


def _missing(df: DataFrame, name: str) -> Column:
    """Whether a value is null or not a finite number; Spark ML learns from neither."""
    kind, column = df.schema[name].dataType, F.col(quoted(name))
    if isinstance(kind, (FloatType, DoubleType)):
        return column.isNull() | ~_finite(column)
    if isinstance(kind, VectorUDT):
        # A null vector has to be kept from vector_to_array, which fails on it.
        return F.when(column.isNull(), F.lit(True)).otherwise(~F.forall(vector_to_array(column), _finite))
    return column.isNull()


def _octets(image: Column, kind: DataType) -> Column:
    return F.octet_length(image.getField("data") if isinstance(kind, StructType) else image)


def _finite(number: Column) -> Column:
    return ~F.isnan(number) & (F.abs(number) < float("inf"))


def _listed(dropped: Mapping[str, int]) -> str:
    return ", ".join(f"{reason}: {count}" for reason, count in dropped.items())


def _some(df: DataFrame, column: str) -> Sequence[object]:
    return [row[0] for row in df.select(F.col(quoted(column))).limit(3).collect()]
