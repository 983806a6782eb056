"""The two tables of a feature transfer: checked, cleaned and joined before any inference (plan E of Vista's Figure 5)."""

from __future__ import annotations

import logging
import operator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.ml.feature import VectorAssembler
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's users know
from pyspark.sql.types import BooleanType, DoubleType, FloatType, NumericType

from vista_spark._columns import check_image, check_present
from vista_spark.errors import ColumnError, DuplicateIdError, EmptyInputError, LabelError, MissingIdError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

__all__ = ["Columns", "Joined", "join"]

_LOG = logging.getLogger(__name__)


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

    def assembler(self, output: str) -> VectorAssembler | None:
        """What makes one vector of several numeric columns, or ``None`` where the features are one already."""
        if isinstance(self.features, str):
            return None
        return VectorAssembler(inputCols=list(self.features), outputCol=output)


@dataclass(frozen=True, slots=True)
class Joined:
    """One row an example.

    Attributes
    ----------
    df : DataFrame
        Columns: id, label, structured features, image.
    rows : int
    dropped : mapping of str to int
        Why rows were left out, and how many.
    """

    df: DataFrame
    rows: int
    dropped: Mapping[str, int]


def join(structured: DataFrame, images: DataFrame, columns: Columns, errors: str, *, classification: bool) -> Joined:
    """Check and join the tables; only ids, labels and nulls are read, no image.

    Parameters
    ----------
    structured, images : DataFrame
    columns : Columns
    errors : {"raise", "drop"}
        What becomes of rows with a null id, label or feature, and of rows without a counterpart.
    classification : bool
        Whether the label needs two classes.

    Raises
    ------
    ColumnError, EmptyInputError, DuplicateIdError, MissingIdError, LabelError
        See :mod:`vista_spark.errors`.
    """
    _check_columns(structured, images, columns)
    dropped: dict[str, int] = {}
    structured_ids = _check_structured(structured, columns, errors, dropped, classification=classification)
    images_ids = _check_images(images, columns, errors, dropped)
    left = structured.select(columns.on, columns.label, *columns.structured).dropna()
    right = images.select(columns.on, columns.image).where(F.col(columns.on).isNotNull())
    rows = left.select(columns.on).join(right.select(columns.on), columns.on).count()
    if not rows:
        raise EmptyInputError(
            f"the tables share no {columns.on!r}: {_some(left, columns.on)} against {_some(right, columns.on)}"
        )
    _settle(errors, dropped, "structured row without an image", structured_ids - rows)
    _settle(errors, dropped, "image without a structured row", images_ids - rows)
    return Joined(left.join(right, columns.on), rows, dropped)


def _check_columns(structured: DataFrame, images: DataFrame, columns: Columns) -> None:
    check_present(structured, [columns.on, columns.label, *columns.structured], "the structured table")
    check_present(images, [columns.on], "the image table")
    check_image(images, columns.image, "the image table")
    one, other = structured.schema[columns.on].dataType, images.schema[columns.on].dataType
    if one != other:
        raise ColumnError(
            f"{columns.on!r} is {one.simpleString()} in the structured table and {other.simpleString()} in the image "
            "table: cast one of them"
        )
    label = structured.schema[columns.label].dataType
    if not isinstance(label, (NumericType, BooleanType)):
        raise ColumnError(
            f"the label {columns.label!r} is {label.simpleString()}, and Spark ML learns numbers: "
            "index it first, with pyspark.ml.feature.StringIndexer"
        )
    for name in columns.structured:
        found = structured.schema[name].dataType
        if isinstance(columns.features, str) and not isinstance(found, VectorUDT):
            raise ColumnError(
                f"featuresCol {name!r} is {found.simpleString()}, not a Spark ML vector: "
                "give the numeric columns as a list instead, or assemble them with VectorAssembler"
            )
        if not isinstance(columns.features, str) and not isinstance(found, (NumericType, BooleanType, VectorUDT)):
            raise ColumnError(f"structured feature {name!r} is {found.simpleString()}, not a number: encode it first")


def _check_structured(
    df: DataFrame, columns: Columns, errors: str, dropped: dict[str, int], *, classification: bool
) -> int:
    unlabelled = _missing(df, columns.label)
    holes = reduce(operator.or_, (_missing(df, name) for name in columns.structured))
    usable = ~(_missing(df, columns.on) | unlabelled | holes)
    found = df.agg(
        F.count("*").alias("rows"),
        F.count(columns.on).alias("ids"),
        F.countDistinct(columns.on).alias("distinct"),
        F.count_if(unlabelled).alias("unlabelled"),
        F.count_if(holes).alias("holes"),
        F.count_if(usable).alias("usable"),
        F.countDistinct(F.when(usable, F.col(columns.label))).alias("classes"),
    ).first()
    assert found is not None  # noqa: S101 - an aggregate without groups has one row
    if not found["rows"]:
        raise EmptyInputError("the structured table is empty")
    _check_distinct(df, columns.on, found["ids"], found["distinct"], "structured")
    _settle(errors, dropped, "structured row with a null id", found["rows"] - found["ids"])
    if found["unlabelled"] and errors == "raise":
        raise LabelError(f'{found["unlabelled"]} rows have no label {columns.label!r}; errors="drop" leaves them out')
    _settle(errors, dropped, "null label", found["unlabelled"])
    _settle(errors, dropped, "null structured feature", found["holes"])
    if classification and found["classes"] < 2:  # noqa: PLR2004 - a classifier tells at least two apart
        raise LabelError(
            f"the label {columns.label!r} has {found['classes']} classes among {found['usable']} usable rows: "
            "a classifier needs two"
        )
    return int(found["usable"])


def _check_images(df: DataFrame, columns: Columns, errors: str, dropped: dict[str, int]) -> int:
    found = df.agg(
        F.count("*").alias("rows"), F.count(columns.on).alias("ids"), F.countDistinct(columns.on).alias("distinct")
    ).first()
    assert found is not None  # noqa: S101 - an aggregate without groups has one row
    if not found["rows"]:
        raise EmptyInputError("the image table is empty")
    _check_distinct(df, columns.on, found["ids"], found["distinct"], "image")
    _settle(errors, dropped, "image with a null id", found["rows"] - found["ids"])
    return int(found["ids"])


def _check_distinct(df: DataFrame, on: str, ids: int, distinct: int, table: str) -> None:
    if ids == distinct:
        return
    twice = df.where(F.col(on).isNotNull()).groupBy(on).count().where("count > 1").orderBy(on)
    raise DuplicateIdError(
        f"{ids - distinct} rows of the {table} table repeat an {on!r}, for example {_some(twice, on)}: "
        "which one is meant cannot be told; keep one row an id"
    )


def _settle(errors: str, dropped: dict[str, int], reason: str, count: int) -> None:
    """Count rows to be left out, or raise."""
    if not count:
        return
    if errors == "raise":
        raise MissingIdError(f'{reason}: {count} rows; errors="drop" leaves them out')
    _LOG.warning("left out: %s (%d rows)", reason, count)
    dropped[reason] = count


def _missing(df: DataFrame, column: str) -> Column:
    missing = F.col(column).isNull()
    return missing | F.isnan(column) if isinstance(df.schema[column].dataType, (FloatType, DoubleType)) else missing


def _some(df: DataFrame, column: str) -> Sequence[object]:
    return [row[0] for row in df.select(column).limit(3).collect()]
