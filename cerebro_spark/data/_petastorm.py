"""Datasets that petastorm materialised, as DataFrames to prepare and train from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from cerebro_spark.errors import ColumnError, MissingPackageError
from udfs.arrow import NewColumns, RowMap, RowPolicy
from udfs.driver import map_rows, quoted, validate_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["petastorm_frame"]

# Spark has no unsigned numbers: the next larger type holds them.
_NUMBERS: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "uint8": pa.int16(),
    "int16": pa.int16(),
    "uint16": pa.int32(),
    "int32": pa.int32(),
    "uint32": pa.int64(),
    "int64": pa.int64(),
    "float16": pa.float32(),
    "float32": pa.float32(),
    "float64": pa.float64(),
}

# Rows that are decoded at a time.
_ROWS = 256


@validate_arguments
def petastorm_frame(spark: SparkSession, url: str) -> DataFrame:
    """Read a dataset that ``petastorm.etl.dataset_metadata.materialize_dataset`` wrote.

    Parameters
    ----------
    spark : SparkSession
        Session that reads the dataset.
    url : str
        URL of the dataset for petastorm, ``file:///...`` or ``hdfs://...``, which the driver and Spark can read.

    Returns
    -------
    DataFrame
        Tensors (``NdarrayCodec``, ``CompressedNdarrayCodec``) as nested arrays, decoded by petastorm on the workers;
        images (``CompressedImageCodec``) as their encoded bytes, which :func:`cerebro_spark.data.prepare` decodes;
        scalars as they are.

    Raises
    ------
    MissingPackageError
        petastorm is not installed.
    ColumnError
        A tensor is of a type that no network reads.

    Notes
    -----
    petastorm keeps its schema as a pickle beside the data and reads it by its own restricted reader: open only what
    you trust. petastorm needs pyarrow 14 or older, and so PySpark 4.0.
    """
    fields = _unischema(url).fields
    table = spark.read.parquet(url)
    tensors = {name: fields[name] for name in table.columns if name in fields and _is_tensor(fields[name])}
    if not tensors:
        return table
    kept = tuple(name for name in table.columns if name not in tensors)
    decoded = map_rows(table, RowMap(_Decoding(tensors), kept, RowPolicy("null")))
    return decoded.select(*(quoted(name) for name in table.columns))


@dataclass(frozen=True, slots=True)
class _Decoding:
    """Tensors of a batch, decoded by petastorm. A :class:`udfs.arrow.BatchFunction`; a null tensor stays null."""

    fields: dict[str, Any]

    @property
    def batch_size(self) -> int:
        return _ROWS

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(self.fields)

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        return tuple(pa.field(name, _list_type(field)) for name, field in self.fields.items())

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        del threads
        return self._decode

    def _decode(self, batch: pa.RecordBatch) -> NewColumns:
        columns = [_nested(batch.column(name), field) for name, field in self.fields.items()]
        return NewColumns(columns, [None] * batch.num_rows)


def _unischema(url: str) -> Any:
    try:
        from petastorm.etl.dataset_metadata import get_schema_from_dataset_url  # (an optional package)
    except ImportError as error:
        raise MissingPackageError(
            'reading what petastorm materialised takes petastorm: pip install "petastorm==0.12.1" "pyarrow<15" '
            '"pyspark>=4.0,<4.1"; or write the dataset as plain Parquet, which needs nothing'
        ) from error
    return get_schema_from_dataset_url(url)


def _is_tensor(field: Any) -> bool:
    return type(field.codec).__name__ in {"NdarrayCodec", "CompressedNdarrayCodec"}


def _number(field: Any) -> pa.DataType:
    dtype = np.dtype(field.numpy_dtype)
    if dtype.name not in _NUMBERS:
        raise ColumnError(f"column {field.name!r}: no network reads a tensor of {dtype}")
    return _NUMBERS[dtype.name]


def _list_type(field: Any) -> pa.DataType:
    kind = _number(field)
    for _ in field.shape:
        kind = pa.list_(kind)
    return kind


def _nested(column: pa.Array, field: Any) -> pa.Array:
    """Convert tensors to nested lists, without a Python object per number."""
    decoded = [field.codec.decode(field, value.as_py()) if value.is_valid else None for value in column]
    kind = _number(field)
    good = [tensor for tensor in decoded if tensor is not None]
    flat = np.concatenate([tensor.ravel() for tensor in good]) if good else np.empty(0)
    values = pa.array(flat.astype(kind.to_pandas_dtype()), kind)
    for axis in reversed(range(1, len(field.shape))):
        lengths = [np.full(math.prod(tensor.shape[:axis]), tensor.shape[axis]) for tensor in good]
        values = pa.ListArray.from_arrays(pa.array(_offsets(lengths)), values)
    counts = [np.array([0 if tensor is None else len(tensor)]) for tensor in decoded]
    null = np.array([*(tensor is None for tensor in decoded), False])
    return pa.ListArray.from_arrays(pa.array(_offsets(counts), mask=null), values)


def _offsets(lengths: Sequence[NDArray[Any]]) -> NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(np.concatenate([*lengths, np.empty(0, np.int64)]))]).astype(np.int32)
