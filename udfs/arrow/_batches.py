"""Batches of the model's size, formed across Spark's Arrow batches, and reports of tasks as batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["rebatch", "report_batch"]

_SPARK_TYPES = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64(), "double": pa.float64()}


def report_batch(report: Any, **encoded: str) -> pa.RecordBatch:
    """Make the row that Spark carries to the driver of a report with a ``schema``, some of its values encoded."""
    columns = {}
    for column in report.schema.split(", "):
        name, kind = column.split(" ")
        columns[name] = pa.array([encoded[name] if name in encoded else getattr(report, name)], _SPARK_TYPES[kind])
    return pa.RecordBatch.from_pydict(columns)


def rebatch(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Regroup rows, in order, into batches of exactly ``size``; only the last one may be shorter, none is empty.

    Rows wait only until their batch is full, so at most ``size`` of them beside one incoming batch are held. Batches
    may have any lengths, empty ones included. Raise ValueError if ``size`` is below 1, which no loop would survive.

    Examples
    --------
    >>> source = [pa.RecordBatch.from_pydict({"x": range(n)}) for n in (3, 0, 4)]
    >>> [batch.num_rows for batch in rebatch(source, 2)]
    [2, 2, 2, 1]
    """
    if size < 1:
        raise ValueError(f"a batch holds at least 1 row, got size={size}")
    waiting: list[pa.RecordBatch] = []
    count = 0
    for incoming in batches:
        start = 0
        while count + incoming.num_rows - start >= size:
            length = size - count
            waiting.append(incoming.slice(start, length))
            start += length
            yield _join(waiting)
            waiting, count = [], 0
        if start < incoming.num_rows:
            waiting.append(incoming.slice(start))
            count += incoming.num_rows - start
    if waiting:
        yield _join(waiting)


def _join(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    table = pa.Table.from_batches(parts).combine_chunks()
    return pa.RecordBatch.from_arrays([column.chunk(0) for column in table.columns], schema=table.schema)
