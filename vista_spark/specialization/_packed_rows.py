"""Columns of a stream packed into one struct, which passes through pandas unchanged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from udfs.driver import quoted
from udfs.specialization import DIGEST, ROW, STREAM, TIME

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

__all__ = ["pack", "unpack"]

_SECONDS = DecimalType(20, 6)


def pack(frames: DataFrame, fields: Mapping[str, str], computed: Collection[str]) -> DataFrame:
    """Return the frames with some columns as fields of a struct.

    As columns of pandas, integers beside nulls would become floats. Timestamps become seconds, because pandas
    cannot represent all of them.

    Parameters
    ----------
    frames : DataFrame
        Frames with their stream, order and hash.
    fields : mapping of str to str
        Name of the field of each column.
    computed : collection of str
        Columns that only models read, which stay as they are.
    """
    kinds = {field.name: field.dataType for field in frames.schema}
    values = [
        _as(F.col(quoted(name)), kinds[name], kinds[name] if name in computed else _top_carrier(kinds[name])).alias(
            field
        )
        for name, field in fields.items()
    ]
    return frames.select(F.struct(*values).alias(ROW), STREAM, TIME, DIGEST)


def unpack(schema: StructType) -> list[Column]:
    """Return the columns of a schema from the first fields of the struct."""
    return [
        _as(F.col(f"{ROW}.c{place}"), _top_carrier(field.dataType), field.dataType).alias(
            field.name, metadata=field.metadata or {}
        )
        for place, field in enumerate(schema.fields)
    ]


def _as(value: Column, now: DataType, kind: DataType) -> Column:
    return value if now == kind else value.cast(kind)


def _top_carrier(kind: DataType) -> DataType:
    """Return the type of a column's field: texts carry numbers, whose NaN pandas would make a null."""
    return StringType() if isinstance(kind, FloatType | DoubleType) else _carrier(kind)


def _carrier(kind: DataType) -> DataType:
    """Return a type with seconds in place of timestamps."""
    if isinstance(kind, TimestampType):
        return _SECONDS
    if isinstance(kind, ArrayType):
        return ArrayType(_carrier(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(_carrier(kind.keyType), _carrier(kind.valueType), kind.valueContainsNull)
    if isinstance(kind, StructType):
        return StructType([StructField(each.name, _carrier(each.dataType), each.nullable) for each in kind.fields])
    return kind
