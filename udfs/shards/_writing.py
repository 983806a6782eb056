"""Write rows that Spark has assigned to shards and sorted as one Parquet file per shard."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from udfs import images
from udfs.arrow import rebatch, report_batch
from udfs.images import Preprocessing
from udfs.shards._digest import ShardDigest
from udfs.shards._prepared_data import FOLDER, SPLITS, ShardError, shard_path
from udfs.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from udfs.shards._groups import TensorColumn
    from udfs.store import Store

__all__ = ["ShardReport", "ShardWriter", "by_shard", "decoded", "encode", "kind", "schema_of", "write_rows"]

# Small enough that a row group is little beside a shard, large enough that reading is not a matter of row groups.
_GROUP_BYTES = 64 * 2**20
_GROUP_ROWS = 65_536
# Images that are decoded before they wait for the rest of their row group.
_DECODED = 64


@dataclass(frozen=True, slots=True)
class ShardReport:
    """Result of writing a shard: rows written, rows left out by reason, and the hash of the tensors.

    ``full`` is the error of a store without space, or empty. Raised in the task, Spark would print it with a traceback
    for each task. ``lengths`` are the numbers of rows of the series, if the rows are series.
    """

    split: str
    partition: int
    rows: int
    bad: dict[str, int]
    digest: str
    full: str = ""
    lengths: tuple[int, ...] | None = None

    schema = "split string, partition int, rows bigint, bad string, digest string, full string, lengths string"


@dataclass(frozen=True, slots=True)
class ShardWriter:
    """Writer of shards that reports each. Pass it to ``mapInArrow`` with rows sorted by shard.

    A shard's rows have to be in one partition of Spark's. Its file appears only once it is complete, and a task that
    runs again writes the same one. The batches have ``columns`` in this order, after the number of the shard; those of
    ``images`` are to be decoded. Shard ``n`` is of split ``SPLITS[n // partitions]``. With ``series`` the number of a
    row's series comes before the columns.
    """

    store: Store
    name: str
    columns: tuple[TensorColumn, ...]
    images: tuple[str, ...]
    partitions: int
    series: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the shards of one of Spark's partitions, and yield a row for each as :class:`ShardReport` has it."""
        for number, parts in itertools.groupby(by_shard(batches), key=lambda part: part[0]):
            runs = _Runs()
            rows = (runs.split(rows) if self.series else rows for _, rows in parts)
            report = self._write(number, rows)
            if self.series and not report.full:
                report = replace(report, lengths=tuple(runs.lengths))
            yield report_batch(report, bad=json.dumps(report.bad), lengths=json.dumps(report.lengths))
            if report.full:
                return

    @property
    def schema(self) -> pa.Schema:
        """Schema of a shard's file; the shapes of its tensors are in the metadata."""
        return schema_of(self.columns)

    def _write(self, number: int, parts: Iterator[pa.RecordBatch]) -> ShardReport:
        split, partition = SPLITS[number // self.partitions], number % self.partitions
        bad: Counter[str] = Counter()
        path = (FOLDER, self.name, shard_path(split, partition))
        try:
            rows, digest = write_rows(self.store, path, self.columns, self._encoded(parts, bad))
        except StoreFullError as error:
            return ShardReport(split, partition, 0, {}, "", str(error))
        return ShardReport(split, partition, rows, dict(bad), digest)

    def _encoded(self, parts: Iterable[pa.RecordBatch], bad: Counter[str]) -> Iterator[pa.RecordBatch]:
        for part in parts:
            for _, good in encode(part, self.columns, self.images, bad):
                yield good


@dataclass(slots=True)
class _Runs:
    """Lengths of the runs of equal numbers in the first column of successive batches."""

    lengths: list[int] = field(default_factory=list)
    _last: int | None = None

    def split(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Count the runs of a batch, and return its other columns."""
        numbers = batch.column(0).to_numpy()
        starts = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 1))
        counts = np.diff(starts, append=len(numbers)).tolist()
        if counts and self._last == numbers[0]:
            self.lengths[-1] += counts.pop(0)
        self.lengths += counts
        if len(numbers):
            self._last = int(numbers[-1])
        return pa.RecordBatch.from_arrays(batch.columns[1:], names=batch.schema.names[1:])


def schema_of(columns: Sequence[TensorColumn]) -> pa.Schema:
    """Make the schema of a shard's file; the shapes of its tensors are in the metadata."""
    shapes = {column.name: list(column.shape) for column in columns}
    fields = [pa.field(column.name, kind(column), nullable=False) for column in columns]
    return pa.schema(fields, {"cerebro_spark.shapes": json.dumps(shapes)})


def write_rows(
    store: Store,
    path: Sequence[str],
    columns: Sequence[TensorColumn],
    batches: Iterable[pa.RecordBatch],
    *,
    group_rows: int = _GROUP_ROWS,
) -> tuple[int, str]:
    """Write the file of a shard; it appears once it is complete.

    The batches come from :func:`encode`, with any lengths; ``group_rows`` is the largest number of rows of a row group.
    Return the number of rows and the digest of their tensors.
    """
    rows = 0
    digest = ShardDigest(columns)
    size = max(1, min(group_rows, _GROUP_BYTES // max(1, sum(column.nbytes for column in columns))))
    with (
        store.writing(*path) as file,
        pq.ParquetWriter(file, schema_of(columns), compression="zstd") as writer,
    ):
        for group in rebatch(batches, size):
            writer.write_batch(group)
            for column in columns:
                digest.update(column, group.column(column.name))
            rows += group.num_rows
    return rows, digest.hexdigest()


def encode(
    rows: pa.RecordBatch, columns: Sequence[TensorColumn], pictures: Collection[str], bad: Counter[str]
) -> Iterator[tuple[NDArray[np.bool_], pa.RecordBatch]]:
    """Encode rows as a shard's file holds them, a few at a time where there are images to decode.

    The columns of ``rows`` are in the order of ``columns``; those of ``pictures`` arrive as images. Yield for the next
    rows whether each is good, and the good ones; ``bad`` counts the others by reason.
    """
    step = _DECODED if pictures else max(1, rows.num_rows)
    for start in range(0, rows.num_rows, step):
        part = rows.slice(start, step)
        reasons: list[str | None] = [None] * part.num_rows
        arrays = []
        for column, values in zip(columns, part.columns, strict=True):
            if column.name in pictures:
                arrays.append(decoded(values, column, reasons))
            else:
                arrays.append(_lists(values.flatten(), column, part.num_rows) if column.shape else values)
        bad.update(reason for reason in reasons if reason is not None)
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema_of(columns))
        good = np.array([reason is None for reason in reasons], np.bool_)
        yield good, batch if good.all() else batch.filter(pa.array(good))


def by_shard(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Cut batches where the number of the shard, their first column, changes."""
    for batch in batches:
        numbers = batch.column(0).to_numpy()
        data = pa.RecordBatch.from_arrays(batch.columns[1:], names=batch.schema.names[1:])
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        for start, end in itertools.pairwise([*starts.tolist(), len(numbers)]):
            yield int(numbers[start]), data.slice(start, end - start)


def kind(column: TensorColumn) -> pa.DataType:
    """Return Arrow's type of a column of a shard's file."""
    number = pa.from_numpy_dtype(np.dtype(column.dtype))
    return pa.list_(pa.field("element", number, nullable=False)) if column.shape else number


def decoded(encoded: pa.Array, column: TensorColumn, reasons: list[str | None]) -> pa.ListArray:
    """Decode a column to 8-bit RGB; an image that cannot be decoded becomes black, and its reason is noted."""
    pixels: NDArray[np.uint8] = np.zeros((len(encoded), *column.shape), np.uint8)
    # The decoder's float32 holds every value of an 8-bit pixel exactly.
    decoder = Preprocessing(crop=column.shape[1], resize=column.shape[1], mean=(0, 0, 0), std=(1, 1, 1), scale=1)
    scratch = np.empty(column.shape, np.float32)
    for place, value in enumerate(encoded):
        if reasons[place] is None:
            try:
                pixels[place] = images.decode(_bytes(value), decoder, out=scratch)
            except images.ImageError as error:
                # Without what varies from one image to the next, so that the same reason is counted together.
                reasons[place] = f"image in {column.name!r}: {error.reason}"
    return _lists(pa.array(pixels.reshape(-1)), column, len(encoded))


def _lists(flat: pa.Array, column: TensorColumn, rows: int) -> pa.ListArray:
    """Wrap tensors of one shape, whose numbers lie one after the other, as lists."""
    if len(flat) != rows * column.size:
        raise ShardError(
            f"column {column.name!r}: {len(flat):,} numbers in {rows:,} rows of shape {column.shape}; the DataFrame "
            "gave other rows when it was read a second time: cache it first"
        )
    offsets = pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * np.int32(column.size))
    return pa.Array.from_buffers(kind(column), rows, [None, offsets], children=[flat])


def _bytes(value: pa.Scalar) -> Any:
    """View encoded bytes in Arrow's memory; convert Spark's image struct to a mapping."""
    if not value.is_valid or pa.types.is_struct(value.type):
        return value.as_py()
    return memoryview(value.as_buffer())
