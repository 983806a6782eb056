"""Write rows that Spark has sorted by group as shards, with an index of the groups beside each."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from optimizer.grouping import Chunk
from udfs.arrow import report_batch
from udfs.grouping._grouped_data import index_path
from udfs.shards import FOLDER, SPLITS, by_shard, encode, shard_path, write_rows
from udfs.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from udfs.shards import TensorColumn
    from udfs.store import Store

__all__ = ["INDEX_SCHEMA", "GroupReport", "GroupWriter"]

# A task reads the row groups that its groups lie in, so they are small.
_GROUP_ROWS = 8192

INDEX_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("level", pa.int32()),
        ("offset", pa.int64()),
        ("rows", pa.int64()),
        ("held_out", pa.int64()),
        ("left_out", pa.string()),
    ]
)
"""Columns of an index: the key as JSON, its level, the first row, rows to train on, rows held out, and left out."""


@dataclass(frozen=True, slots=True)
class GroupReport:
    """Result of writing a shard.

    ``chunks`` are the chunks of its groups as JSON, ``full`` the error of a store without space, or empty.
    """

    partition: int
    rows: int
    left_out: str
    digest: str
    chunks: str
    full: str = ""

    schema = "partition int, rows bigint, left_out string, digest string, chunks string, full string"


@dataclass(frozen=True, slots=True)
class GroupWriter:
    """Writer of shards sorted by group. Pass it to ``mapInArrow``.

    The batches have the number of the shard, the key as JSON, its level, the number of the first defect of a row or a
    negative one, and ``columns``. Rows of a shard are in one partition of Spark's, sorted by level and key.

    Parameters
    ----------
    store : Store
        Store of the shards.
    name : str
        Name of the prepared data.
    columns : tuple of TensorColumn
        Columns of the inputs, the labels and the weights.
    images : tuple of str
        Columns that arrive as images.
    reasons : mapping of int to str
        Reasons by the number of a defect.
    test_fraction : float
        Share of the rows of each group to hold out; a group keeps one row to train on.
    fallback_rows : int
        Largest number of rows of a group above the last level.
    levels : int
        Number of the last level.
    chunk_cost : float
        Cost after which a chunk ends.
    """

    store: Store
    name: str
    columns: tuple[TensorColumn, ...]
    images: tuple[str, ...]
    reasons: Mapping[int, str]
    test_fraction: float
    fallback_rows: int
    levels: int
    chunk_cost: float

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the shards of one of Spark's partitions, and yield a row for each as :class:`GroupReport` has it."""
        for number, parts in itertools.groupby(by_shard(batches), key=lambda part: part[0]):
            report = self._write(number, (rows for _, rows in parts))
            yield report_batch(report)
            if report.full:
                return

    def _write(self, number: int, parts: Iterator[pa.RecordBatch]) -> GroupReport:
        shard = _Shard(self)
        path = (FOLDER, self.name, shard_path(SPLITS[0], number))
        try:
            rows, digest = write_rows(self.store, path, self.columns, shard.encoded(parts), group_rows=_GROUP_ROWS)
            with self.store.writing(*index_path(self.name, number)) as file:
                pq.write_table(pa.Table.from_pylist(shard.index, INDEX_SCHEMA), file)
        except StoreFullError as error:
            return GroupReport(number, 0, "{}", "", "[]", str(error))
        chunks = [asdict(chunk) for chunk in shard.chunks(number)]
        return GroupReport(number, rows, json.dumps(shard.left_out), digest, json.dumps(chunks))


@dataclass(slots=True)
class _Shard:
    """Groups of a shard as they are written."""

    writer: GroupWriter
    index: list[dict[str, object]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    _rows: int = 0

    def encoded(self, parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the complete rows of each group as the shard's file has them, and add the group to the index."""
        writer = self.writer
        for (key, level), batches in itertools.groupby(_by_key(parts), key=lambda part: part[0]):
            left_out: Counter[str] = Counter()
            limit = None if level == writer.levels else writer.fallback_rows
            count = 0
            for _, batch in batches:
                defects = batch.column(2).to_numpy()
                for defect, rows in Counter(defects[defects >= 0].tolist()).items():
                    left_out[writer.reasons[defect]] += rows
                complete = batch.filter(pa.array(defects == -1))
                if limit is not None:
                    complete = complete.slice(0, limit - count)
                if not complete.num_rows:
                    continue
                rows = pa.RecordBatch.from_arrays(complete.columns[3:], names=[c.name for c in writer.columns])
                for _, good in encode(rows, writer.columns, writer.images, left_out):
                    count += good.num_rows
                    yield good
            self._add(key, level, count, left_out)

    def _add(self, key: str, level: int, count: int, left_out: Counter[str]) -> None:
        held_out = max(0, min(round(count * self.writer.test_fraction), count - 1))
        self.index.append(
            {
                "key": key,
                "level": level,
                "offset": self._rows,
                "rows": count - held_out,
                "held_out": held_out,
                "left_out": json.dumps(left_out),
            }
        )
        self._rows += count
        if level == self.writer.levels:
            self.left_out.update(left_out)

    def chunks(self, number: int) -> Iterator[Chunk]:
        """Cut the groups into chunks that end once they have the writer's cost."""
        chunk = Chunk(number, 0, 0, 0)
        for entry in self.index:
            rows = int(entry["rows"]) + int(entry["held_out"])  # type: ignore[call-overload]
            alone = Chunk(number, chunk.first + chunk.groups, 1, rows)
            if chunk.groups and chunk.cost + alone.cost > self.writer.chunk_cost:
                yield chunk
                chunk = alone
            else:
                chunk = Chunk(number, chunk.first, chunk.groups + 1, chunk.rows + rows)
        if chunk.groups:
            yield chunk


def _by_key(parts: Iterator[pa.RecordBatch]) -> Iterator[tuple[tuple[str, int], pa.RecordBatch]]:
    """Cut batches where the key, their first column, changes."""
    for part in parts:
        keys = part.column(0).dictionary_encode()
        codes = keys.indices.to_numpy()
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        levels = part.column(1).to_numpy()
        for start, end in itertools.pairwise([*starts.tolist(), len(codes)]):
            yield (keys.dictionary[codes[start]].as_py(), int(levels[start])), part.slice(start, end - start)
