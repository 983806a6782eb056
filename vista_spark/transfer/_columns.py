"""Columns of the tables of a transfer, and conditions of missing values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.ml.feature import VectorAssembler
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, FloatType

from udfs.driver import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

__all__ = ["NULL_FEATURE", "Columns", "ColumnsRead", "first_missing", "is_missing"]

NULL_FEATURE = "null structured feature"
"""Reason of a row without a value in one of the columns that the downstream model reads; the column's name follows."""


@dataclass(frozen=True, slots=True)
class ColumnsRead:
    """Columns of the structured table that the downstream model reads by name, such as one that a stage indexes.

    ``prediction`` excludes weights, for example. The downstream model accepts nulls in ``nullable`` columns: of an
    ``Imputer``, or with ``handleInvalid="keep"``.
    """

    training: tuple[str, ...] = ()
    prediction: tuple[str, ...] = ()
    nullable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the user's columns.

    ``on`` is the id, in both tables; ``features`` are one Spark ML vector, or numeric columns to be assembled.
    ``label`` is numeric, unless the downstream pipeline indexes it; ``target`` is what the downstream model learns, by
    default the label. ``image`` is in the form that :class:`vista_spark.CNNFeaturizer` expects.
    """

    on: str
    features: str | tuple[str, ...]
    label: str
    image: str
    read: ColumnsRead = field(default_factory=ColumnsRead)
    target: str = ""

    @property
    def structured(self) -> tuple[str, ...]:
        """The structured feature columns."""
        return (self.features,) if isinstance(self.features, str) else self.features

    @property
    def inputs(self) -> tuple[str, ...]:
        """Columns of the structured table that the training reads beside id and label."""
        return tuple(dict.fromkeys((*self.structured, *self.read.training)))

    @property
    def required(self) -> tuple[str, ...]:
        """Columns that have a value in every row of the training."""
        return tuple(name for name in self.inputs if name in self.structured or name not in self.read.nullable)

    @property
    def learned(self) -> str:
        """The column that the downstream model learns."""
        return self.target or self.label

    def assembler(self, output: str) -> VectorAssembler:
        """Make a stage that assembles the structured features to one vector, of a size that Spark ML knows."""
        # It reads a dot in a name as a field of a struct, unless the name is quoted.
        inputs = [quoted(name) if "." in name else name for name in self.structured]
        return VectorAssembler(inputCols=inputs, outputCol=output)


def is_missing(df: DataFrame, name: str) -> Column:
    """Build the condition that a value is null or not finite; Spark ML learns from neither."""
    kind, column = df.schema[name].dataType, F.col(quoted(name))
    if isinstance(kind, (FloatType, DoubleType)):
        return column.isNull() | ~_finite(column)
    if isinstance(kind, VectorUDT):
        # A null vector has to be kept from vector_to_array, which fails on it.
        return F.when(column.isNull(), F.lit(True)).otherwise(~F.forall(vector_to_array(column), _finite))
    return column.isNull()


def first_missing(df: DataFrame, names: Sequence[str]) -> Column:
    """Name the first of some columns without a value in a row; null where all have one."""
    return F.coalesce(*(F.when(is_missing(df, name), F.lit(name)) for name in names), F.lit(None).cast("string"))


def _finite(number: Column) -> Column:
    return ~F.isnan(number) & (F.abs(number) < float("inf"))
