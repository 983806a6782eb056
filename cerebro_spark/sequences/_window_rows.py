"""DataFrame of the windows of another DataFrame's series, for predictions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    LongType,
    NumericType,
    StringType,
    StructField,
    StructType,
)

from cerebro_spark.data import cut_series, series_rows
from cerebro_spark.errors import ColumnError
from udfs.driver import quoted
from udfs.sequences import SeriesWindows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from udfs.sequences import Windows
    from udfs.shards import Series, TensorGroup

__all__ = ["window_rows"]

_TYPES: dict[str, DataType] = {"float32": FloatType(), "int64": LongType()}


def window_rows(
    df: DataFrame,
    series: Series,
    view: Windows,
    inputs: tuple[TensorGroup, ...],
    labels: tuple[str, ...] = (),
) -> DataFrame:
    """Make a row of each window of the series, lazily.

    A series is cut where a row has a null key or a value that cannot be read, and at gaps larger than
    ``series.max_gap``, as in training: no window has such a row.

    Parameters
    ----------
    df : DataFrame
        Rows in any order, with the columns of the series and of the inputs.
    series : Series
        Columns of the series and of the time.
    view : Windows
        Windows to make.
    inputs : tuple of TensorGroup
        Inputs of the shards, with the columns that each is read from.
    labels : tuple of str
        Columns of numbers, strings or booleans whose labels of windows are added, in their types; as doubles with
        ``label="mean"``. Default none.

    Returns
    -------
    DataFrame
        The columns of ``series.series_by``, ``window_start`` and ``window_end`` (times of the first and the last row),
        an array for each input, and the labels.

    Raises
    ------
    ColumnError
        A column is missing or has a wrong type, or two columns of the result would have one name.
    """
    series = replace(series, subject_by=(), validation_column=None, split="subject", embargo=None)
    names = [*series.series_by, "window_start", "window_end", *(group.name for group in inputs), *labels]
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise ColumnError(f"columns of windows must have different names, got {twice!r} twice. Rename the column")
    kinds = {name: _label_type(df, name, view) for name in labels}
    keys = tuple(f"k{place}" for place in range(len(series.series_by)))
    rows, columns = series_rows(
        df,
        series,
        inputs,
        [
            *(F.col(quoted(name)).cast(kind).alias(f"l{place}") for place, (name, kind) in enumerate(kinds.items())),
            F.col(quoted(series.order_by)).alias("at"),
            *(F.col(quoted(name)).alias(key) for key, name in zip(keys, series.series_by, strict=True)),
        ],
    )
    run = F.xxhash64("series", "part").alias("run")
    arrays = [F.col(f"c{place}").alias(name) for place, name in enumerate(columns)]
    truth = [f"l{place}" for place in range(len(labels))]
    arrays += [F.col(column).alias(name) for column, name in zip(truth, labels, strict=True)]
    kept = [*(f"c{place}" for place in range(len(columns))), "at", *keys, *truth]
    cut = cut_series(rows.where("NOT without_key"), kept)
    ordered = cut.repartition("series").sortWithinPartitions("series", "time").select(run, "time", "at", *keys, *arrays)
    fields = [StructField(key, df.schema[name].dataType) for key, name in zip(keys, series.series_by, strict=True)]
    time = df.schema[series.order_by].dataType
    fields += [StructField("window_start", time), StructField("window_end", time)]
    fields += [StructField(group.name, _type(group)) for group in view.groups(inputs, ())[0]]
    fields += [StructField(name, kind) for name, kind in kinds.items()]
    windows = ordered.mapInArrow(SeriesWindows(view, inputs, labels, keys), StructType(fields))
    return windows.withColumnsRenamed(dict(zip(keys, series.series_by, strict=True)))


def _label_type(df: DataFrame, name: str, view: Windows) -> DataType:
    """Return the type of the labels of windows."""
    kind = df.schema[name].dataType
    kinds = (NumericType, BooleanType) if view.label == "mean" else (NumericType, BooleanType, StringType)
    if not isinstance(kind, kinds):
        raise ColumnError(
            f"label must be a column of {'numbers' if view.label == 'mean' else 'numbers, strings or booleans'}, got "
            f"{name!r} of {kind.simpleString()}. Drop it, or cast it"
        )
    return DoubleType() if view.label == "mean" else kind


def _type(group: TensorGroup) -> DataType:
    kind = _TYPES[group.dtype]
    for _ in group.shape:
        kind = ArrayType(kind)
    return kind
