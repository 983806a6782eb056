"""Labels of the frames of a DataFrame: sorted partitions of a table, or groups of Structured Streaming."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_type
from pyspark.sql.types import StructType, UserDefinedType

from udfs.driver import check_absent, quoted
from udfs.specialization import DIGEST, ROW, STREAM, TIME, PartitionLabelling, StreamProcessor
from vista_spark.specialization._order import order_of, stream_of
from vista_spark.specialization._packed_rows import pack, unpack

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from udfs.specialization import SpecializationSpec

__all__ = ["label_frames"]


def label_frames(
    dataset: DataFrame, spec: SpecializationSpec, reads: Mapping[str, Column | str], order: str, group: str | None
) -> DataFrame:
    """Add the columns of the specification to frames, lazily.

    Parameters
    ----------
    dataset : DataFrame
        Frames, a table or a stream.
    spec : SpecializationSpec
        Models and settings.
    reads : mapping of str to Column or str
        For each column that the models read, a column of `dataset` or an expression.
    order : str
        Column of the frames' order.
    group : str, optional
        Column of the stream's name; ``None`` for a single stream.

    Returns
    -------
    DataFrame
        Columns of `dataset` and those of the specification.

    Raises
    ------
    ColumnError
        A column that is added exists, or the order is neither a number nor a timestamp.
    """
    check_absent(dataset, [*spec.columns, STREAM, TIME, DIGEST, ROW], "set another name, or drop it first")
    sources = {name: source for name, source in reads.items() if not isinstance(source, str)}
    extra = {f"__read_{place}": source for place, source in enumerate(sources.values())}
    places = dict(zip(sources, extra, strict=True))
    names = tuple((name, places.get(name) or str(reads[name])) for name in spec.reads)
    frames = dataset.withColumns(
        {
            **extra,
            STREAM: stream_of(group),
            TIME: order_of(dataset, order),
            DIGEST: F.xxhash64(*(F.col(quoted(column)) for _, column in names)),
        }
    )
    keep = tuple(dataset.columns)
    fields = {column: f"c{place}" for place, column in enumerate([*keep, *extra])}
    adds = from_arrow_schema(pa.schema(spec.adds)).fields
    if dataset.isStreaming:
        reading = tuple((name, fields[column], to_arrow_type(frames.schema[column].dataType)) for name, column in names)
        objects = tuple(
            (f"c{place}", field.dataType)
            for place, field in enumerate(dataset.schema.fields)
            if isinstance(field.dataType, UserDefinedType)
        )
        packed = pack(frames, fields, extra)
        labelled = packed.groupBy(STREAM).transformWithStateInPandas(
            StreamProcessor(spec, uuid4().hex, reading, objects),
            StructType([packed.schema[ROW], *adds]),
            "Append",
            "None",
        )
        return labelled.select(*unpack(dataset.schema), *(F.col(quoted(field.name)) for field in adds))
    partitions = int(dataset.sparkSession.conf.get("spark.sql.shuffle.partitions") or 200)
    # Spark resolves the names of mapInArrow's input again, unquoted.
    plain = frames.select(*(F.col(quoted(name)).alias(field) for name, field in fields.items()), STREAM, TIME, DIGEST)
    ordered = plain.repartition(partitions if group else 1, STREAM).sortWithinPartitions(STREAM, TIME, DIGEST)
    labelling = PartitionLabelling(spec, keep, tuple((name, fields[column]) for name, column in names))
    return ordered.mapInArrow(labelling, StructType([*dataset.schema.fields, *adds]))
