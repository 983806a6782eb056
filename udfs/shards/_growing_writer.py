"""Write one batch of growing data: what is new, and what changed of the records that are known."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from udfs.arrow import report_batch
from udfs.shards._increment import Changes, Increment, changes_path, records_path
from udfs.shards._ledger import Known, Ledger, changes_schema, records_schema, write_table
from udfs.shards._prepared_data import FOLDER, SPLITS, shard_path
from udfs.shards._shard import Shard
from udfs.shards._writing import by_shard, encode, write_rows
from udfs.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from udfs.shards._groups import TensorColumn
    from udfs.shards._growing_data import GrowingData
    from udfs.shards._prepared_data import PreparedData
    from udfs.store import Store

__all__ = ["IncrementReport", "IncrementWriter", "increment_of"]

# Version of the row order and the file format: another version gives other shards of the same rows.
_FORMAT = 1

# Before the columns of the shards: the id, the hashes of features and of labels with the weight, whether that is 0.
_FACTS = 4
_TOLD = 5


@dataclass(frozen=True, slots=True)
class IncrementReport:
    """Result of writing one shard of a batch.

    ``received`` counts the records with a weight that came in, ``rows`` those written: new, or with new features.
    ``out`` and ``corrected`` count rows of earlier batches that went out, or got another label or weight; ``bad`` the
    records left out, by reason. ``twice`` has some of the ids that came more than once; nothing is to be used then. The
    digests are of the files with the tensors, the ids and the changes, ``""`` without a file. ``full`` is the error
    of a store without space, or empty.
    """

    split: str
    partition: int
    received: int
    rows: int
    out: int
    corrected: int
    bad: dict[str, int]
    twice: tuple[str, ...]
    digest: str
    records: str
    changes: str
    full: str = ""

    schema: ClassVar[str] = (
        "split string, partition int, received bigint, rows bigint, out bigint, corrected bigint, bad string, "
        "twice string, digest string, records string, changes string, full string"
    )

    def to_batch(self) -> pa.RecordBatch:
        """Make the row that Spark carries to the driver."""
        return report_batch(self, bad=json.dumps(self.bad), twice=json.dumps(self.twice))

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> IncrementReport:
        """Read what :meth:`to_batch` made."""
        return cls(**{**row, "bad": json.loads(row["bad"]), "twice": tuple(json.loads(row["twice"]))})


_NOTHING = IncrementReport(SPLITS[0], 0, 0, 0, 0, 0, {}, (), "", "", "")


@dataclass(frozen=True, slots=True)
class IncrementWriter:
    """Writer of the shards of a batch that reports each. Pass it to ``mapInArrow`` with rows sorted by shard.

    A shard's rows must be in one Spark partition, with equal ids next to each other. The task of a shard reads the
    earlier records of its ids from the store. ``name`` is the batch's folder. The batches have ``columns`` in this
    order, after the number of the shard, the id, a hash of the features, a hash of labels and weight, and whether the
    weight is 0; ``labels`` are followed by the weight column if there is one. Shard ``n`` is of split ``SPLITS[n //
    partitions]``. ``previous`` are the earlier batches.
    """

    store: Store
    name: str
    columns: tuple[TensorColumn, ...]
    images: tuple[str, ...]
    labels: tuple[str, ...]
    partitions: int
    previous: GrowingData | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the shards of one of Spark's partitions, and yield a row for each: :class:`IncrementReport`."""
        for number, parts in itertools.groupby(by_shard(batches), key=lambda part: part[0]):
            try:
                report = self._write(number, (rows for _, rows in parts))
            except StoreFullError as error:
                # Raised in the task, Spark would print it with a traceback for each task.
                yield replace(_NOTHING, full=str(error)).to_batch()
                return
            yield report.to_batch()

    def _write(self, number: int, parts: Iterator[pa.RecordBatch]) -> IncrementReport:
        split, partition = SPLITS[number // self.partitions], number % self.partitions
        increments = () if self.previous is None else self.previous.increments
        by_name = {column.name: column for column in self.columns}
        entry = _Entry(
            Ledger(increments, split, partition).known(),
            self.columns,
            self.images,
            tuple(by_name[n] for n in self.labels),
        )
        path = (FOLDER, self.name, shard_path(split, partition))
        rows, digest = write_rows(
            self.store, path, self.columns, (good for part in parts for good in entry.enter(part))
        )
        records, changes = entry.records(), entry.changes()
        out = int(np.count_nonzero(changes["out"].to_numpy()))
        return IncrementReport(
            split,
            partition,
            received=entry.received,
            rows=rows,
            out=out,
            corrected=len(changes) - out,
            bad=dict(entry.bad),
            twice=tuple(entry.twice),
            digest=digest if rows else "",
            records=write_table(self.store, records, *records_path(self.name, split, partition)) if rows else "",
            changes=write_table(self.store, changes, *changes_path(self.name, split, partition))
            if len(changes)
            else "",
        )


@dataclass(slots=True)
class _Entry:
    """The entering of a batch's records, all of one shard, into what is known of them."""

    known: Mapping[str, Known]
    columns: tuple[TensorColumn, ...]
    images: tuple[str, ...]
    labels: tuple[TensorColumn, ...]
    bad: Counter[str] = field(default_factory=Counter)
    received: int = 0
    twice: list[str] = field(default_factory=list)
    _last: str | None = None
    _records: list[pa.Table] = field(default_factory=list)
    _changes: list[pa.Table] = field(default_factory=list)

    def enter(self, part: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Record changes, and yield the encoded rows to write."""
        ids, features, labels, without = (part.column(place).to_pylist() for place in range(_FACTS))
        values = pa.RecordBatch.from_arrays(part.columns[_FACTS:], names=part.schema.names[_FACTS:])
        new, corrected, out = [], [], []
        for row, record in enumerate(ids):
            if record == self._last:
                self.twice += [record][: _TOLD - len(self.twice)]
            self._last = record
            self.received += not without[row]
            known = self.known.get(record)
            if without[row]:
                out += [row] if known is not None else []
            elif known is None or known.features != features[row]:
                new.append(row)
            elif known.labels != labels[row]:
                corrected.append(row)
        self._change(part, out, values=None)
        self._change(part, corrected, values=values)
        if new:
            yield from self._write(part.take(new), values.take(new))

    def records(self) -> pa.Table:
        """List the ids, hashes and labels of the rows that were written."""
        return pa.concat_tables([records_schema(self.labels).empty_table(), *self._records])

    def changes(self) -> pa.Table:
        """List what changed of the rows of earlier batches."""
        return pa.concat_tables([changes_schema(self.labels).empty_table(), *self._changes])

    def _write(self, part: pa.RecordBatch, values: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        start = 0
        for good, encoded in encode(values, self.columns, self.images, self.bad):
            rows = start + np.flatnonzero(good)
            start += len(good)
            if not len(rows):
                continue
            facts = [part.column(place).take(rows) for place in range(3)]
            arrays = [*facts, *(encoded.column(column.name) for column in self.labels)]
            self._records.append(pa.Table.from_arrays(arrays, schema=records_schema(self.labels)))
            # Only now: a record whose new image cannot be decoded keeps its old row.
            self._change(part, [row for row in rows.tolist() if part.column(0)[row].as_py() in self.known], values=None)
            yield encoded

    def _change(self, part: pa.RecordBatch, rows: list[int], values: pa.RecordBatch | None) -> None:
        """Record that rows of known records are removed, or have the labels in `values`."""
        if not rows:
            return
        ids = part.column(0).take(rows)
        known = [self.known[record] for record in ids.to_pylist()]
        arrays: list[pa.Array] = [
            ids,
            pa.array([entry.increment for entry in known], pa.int32()),
            pa.array([entry.row for entry in known], pa.int64()),
            pa.array([values is None] * len(rows)),
            part.column(2).take(rows),
        ]
        schema = changes_schema(self.labels)
        if values is None:
            arrays += [pa.nulls(len(rows), schema.field(f"v{place}").type) for place in range(len(self.labels))]
        else:
            # Labels are never images: nothing of them can be bad.
            places = {column.name: place for place, column in enumerate(self.columns)}
            chosen = pa.RecordBatch.from_arrays(
                [values.column(places[column.name]).take(rows) for column in self.labels],
                names=[column.name for column in self.labels],
            )
            for _, encoded in encode(chosen, self.labels, (), Counter()):
                arrays += encoded.columns
        self._changes.append(pa.Table.from_arrays(arrays, schema=schema))


def increment_of(planned: PreparedData, reports: Iterable[IncrementReport]) -> Increment:
    """Put the reports of a batch's shards together.

    The fingerprint of ``planned`` does not matter. That of the result is of the new rows alone: what is computed from
    them is kept under it, whatever they are called.
    """
    reports = sorted(reports, key=lambda report: (SPLITS.index(report.split), report.partition))
    row_bytes = sum(group.nbytes for group in planned.groups)
    bad = sum((Counter(report.bad) for report in reports), Counter(planned.dropped))
    shards = tuple(
        Shard(
            report.split,
            report.partition,
            shard_path(report.split, report.partition),
            report.rows,
            report.rows * row_bytes,
            report.digest,
        )
        for report in reports
        if report.rows
    )
    facts = {
        "format": _FORMAT,
        "groups": [asdict(group) for group in planned.groups],
        "shards": [[shard.path, shard.rows, shard.digest] for shard in shards],
    }
    fingerprint = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return Increment(
        replace(planned, shards=shards, dropped=dict(bad), fingerprint=fingerprint),
        {shard_path(report.split, report.partition): report.records for report in reports if report.rows},
        tuple(
            Changes(report.split, report.partition, report.out, report.corrected, report.changes)
            for report in reports
            if report.changes
        ),
    )
