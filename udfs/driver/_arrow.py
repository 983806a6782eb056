"""What an :class:`udfs.inference.Inference` looks like to Spark: its schema, and its arrays as Spark ML vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.ml.functions import array_to_vector
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's users know
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import ArrayType, BinaryType, FloatType, StringType, StructField, StructType

from udfs.arrow import Named
from udfs.occlusion import DETAILS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from udfs.inference import HOGExtraction, Inference
    from udfs.occlusion import Explaining

__all__ = ["as_vector", "describe", "explained", "infer", "quoted"]


def infer(df: DataFrame, inference: Inference) -> DataFrame:
    """Run an inference over a DataFrame, lazily; the columns come in the order that :class:`Inference` says."""
    fields = _kept(df, inference.keep)
    fields += [StructField(column, ArrayType(FloatType(), containsNull=False)) for column in inference.vectors]
    fields += [StructField(tensor.column, BinaryType()) for tensor in inference.materialised]
    return _map(df, inference, fields, inference.reads)


def describe(df: DataFrame, extraction: HOGExtraction) -> DataFrame:
    """Run a descriptor over a DataFrame, lazily."""
    fields = _kept(df, extraction.keep)
    fields.append(StructField(extraction.output, ArrayType(FloatType(), containsNull=False)))
    return _map(df, extraction, fields, [extraction.column])


def explained(df: DataFrame, explaining: Explaining) -> DataFrame:
    """Make heat maps of a DataFrame's images, or what tunes them, lazily."""
    fields = _kept(df, explaining.keep)
    fields.append(StructField(explaining.output, ArrayType(FloatType(), containsNull=False)))
    if not explaining.tuning:
        fields.append(StructField(explaining.details, from_arrow_type(DETAILS)))
    return _map(df, explaining, fields, explaining.reads)


def quoted(name: str) -> str:
    """A column's name as Spark's expressions take it, whatever characters it has."""
    return f"`{name.replace('`', '``')}`"


def _kept(df: DataFrame, names: tuple[str, ...]) -> list[StructField]:
    schema = df.schema
    return [schema[name] for name in names]


def _map(
    df: DataFrame, run: Inference | HOGExtraction | Explaining, fields: list[StructField], read: Sequence[str]
) -> DataFrame:
    if run.policy.errors == "null":
        fields = [*fields, StructField(run.policy.error_column, StringType())]
    needed = tuple(dict.fromkeys((*run.keep, *read)))
    # PySpark's mapInArrow resolves the names of its input again, unquoted: plain ones go in, and ours are back inside.
    plain = df.select(*(F.col(quoted(name)).alias(f"c{place}") for place, name in enumerate(needed)))
    return plain.mapInArrow(Named(run, needed), StructType(fields))


def as_vector(column: str, size: int) -> Column:
    """An ``array<float>`` of ``size`` numbers as a Spark ML vector, null where it is null; it keeps its name."""
    array = F.col(quoted(column))
    # Told the size, Spark ML runs no job for the first row to learn it: such a job stops early, its workers with it.
    return F.when(array.isNotNull(), array_to_vector(array)).alias(column, metadata={"ml_attr": {"num_attrs": size}})
