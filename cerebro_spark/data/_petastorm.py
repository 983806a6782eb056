"""What petastorm materialised, as a DataFrame that can be prepared and trained from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's users know
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StructField,
    StructType,
)

from cerebro_spark.errors import ColumnError, MissingPackageError
from udfs.arrow import Named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["petastorm_frame"]

# Spark has no unsigned numbers: the next larger type holds them.
_NUMBERS: dict[str, tuple[DataType, pa.DataType]] = {
    "bool": (BooleanType(), pa.bool_()),
    "int8": (ByteType(), pa.int8()),
    "uint8": (ShortType(), pa.int16()),
    "int16": (ShortType(), pa.int16()),
    "uint16": (IntegerType(), pa.int32()),
    "int32": (IntegerType(), pa.int32()),
    "uint32": (LongType(), pa.int64()),
    "int64": (LongType(), pa.int64()),
    "float16": (FloatType(), pa.float32()),
    "float32": (FloatType(), pa.float32()),
    "float64": (DoubleType(), pa.float64()),
}


def petastorm_frame(spark: SparkSession, url: str) -> DataFrame:
    """Read a dataset that ``petastorm.etl.dataset_metadata.materialize_dataset`` wrote.

    Parameters
    ----------
    spark : SparkSession
    url : str
        Of the dataset, as petastorm takes it: ``file:///...``, ``hdfs://...``. The driver and Spark both read it.

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
    found = spark.read.parquet(url)
    names = tuple(found.columns)
    tensors = {name: fields[name] for name in names if name in fields and _is_tensor(fields[name])}
    schema = StructType(
        [
            StructField(name, _spark_type(tensors[name])) if name in tensors else field
            for name, field in zip(names, found.schema.fields, strict=True)
        ]
    )
    # PySpark's mapInArrow resolves the names of its input again, unquoted: plain ones go in, ours come out.
    plain = found.select(*(F.col(f"`{name}`").alias(f"c{place}") for place, name in enumerate(names)))
    return plain.mapInArrow(Named(_Decoding(tensors), names), schema)


@dataclass(frozen=True, slots=True)
class _Decoding:
    fields: dict[str, Any]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = {}
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                field = self.fields.get(name)
                columns[name] = column if field is None else _nested(column, field)
            yield pa.RecordBatch.from_pydict(columns)


def _unischema(url: str) -> Any:
    try:
        from petastorm.etl.dataset_metadata import get_schema_from_dataset_url  # noqa: PLC0415  (an optional package)
    except ImportError as error:
        raise MissingPackageError(
            'reading what petastorm materialised takes petastorm: pip install "petastorm==0.12.1" "pyarrow<15" '
            '"pyspark>=4.0,<4.1"; or write the dataset as plain Parquet, which needs nothing'
        ) from error
    return get_schema_from_dataset_url(url)


def _is_tensor(field: Any) -> bool:
    return type(field.codec).__name__ in {"NdarrayCodec", "CompressedNdarrayCodec"}


def _number(field: Any) -> tuple[DataType, pa.DataType]:
    dtype = np.dtype(field.numpy_dtype)
    if dtype.name not in _NUMBERS:
        raise ColumnError(f"column {field.name!r}: no network reads a tensor of {dtype}")
    return _NUMBERS[dtype.name]


def _spark_type(field: Any) -> DataType:
    kind, _ = _number(field)
    for _ in field.shape:
        kind = ArrayType(kind)
    return kind


def _nested(column: pa.Array, field: Any) -> pa.Array:
    """Tensors as lists of lists, without a Python object a number."""
    decoded = [field.codec.decode(field, value.as_py()) if value.is_valid else None for value in column]
    _, kind = _number(field)
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
