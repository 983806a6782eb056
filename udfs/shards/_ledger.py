"""Ledger of the records of a growing shard: ids of each batch, and changes by later batches."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from udfs.shards._arrays import as_array
from udfs.shards._increment import changes_path, records_path
from udfs.shards._prepared_data import ShardError, columns_of
from udfs.shards._writing import kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udfs.shards._groups import TensorColumn
    from udfs.shards._increment import Increment
    from udfs.store import Store

__all__ = ["Edits", "Known", "Ledger", "changes_schema", "records_schema", "write_table"]


class Known(NamedTuple):
    """Place of a record, with hashes of its features and of its labels and weight."""

    increment: int
    row: int
    features: int
    labels: int


class Edits(NamedTuple):
    """Changes of the rows of a batch by later batches, as in :class:`udfs.shards.Part`."""

    keep: NDArray[np.bool_] | None
    corrected: dict[str, tuple[NDArray[np.int64], NDArray[Any]]]


class Ledger:
    """The records of one shard, over all batches from the first one on; ShardError if a file is damaged."""

    def __init__(self, increments: Sequence[Increment], split: str, partition: int) -> None:
        self._increments = increments
        self._key = (split, partition)
        self._columns = _label_columns(increments[0]) if increments else ()
        self._changes = [self._changed(increment) for increment in increments]

    def known(self) -> dict[str, Known]:
        """Find all records that count, by their ids."""
        known: dict[str, Known] = {}
        for number, changes in enumerate(self._changes):
            if changes is not None:
                for record, out, labels in zip(
                    *(changes[name].to_pylist() for name in ("id", "out", "labels")), strict=True
                ):
                    if out:
                        del known[record]
                    else:
                        known[record] = known[record]._replace(labels=labels)
            records = self._records(number)
            if records is not None:
                facts = (records[name].to_pylist() for name in ("id", "features", "labels"))
                for row, (record, features, labels) in enumerate(zip(*facts, strict=True)):
                    known[record] = Known(number, row, features, labels)
        return known

    def ids(self) -> list[str]:
        """List the ids of the records that count, in the order of the shard's rows."""
        ids: list[str] = []
        for number, edits in enumerate(self.edits()):
            records = self._records(number)
            if records is not None:
                shard_ids = records["id"].to_pylist()
                ids += (
                    shard_ids
                    if edits.keep is None
                    else [record for record, kept in zip(shard_ids, edits.keep, strict=True) if kept]
                )
        return ids

    def records(self, increment: int) -> tuple[list[str], NDArray[np.int64]]:
        """List the ids of all rows of one batch, in their order, and the hashes of their features."""
        records = self._records(increment)
        if records is None:
            return [], np.empty(0, np.int64)
        return records["id"].to_pylist(), records["features"].to_numpy()

    def edits(self) -> list[Edits]:
        """Compile what later batches changed of the rows of each."""
        return [self._edits(number) for number in range(len(self._increments))]

    def labels(self) -> list[NDArray[Any]]:
        """Read the labels, and last the weights where there are any, of all rows that count, in their order."""
        blocks: list[list[NDArray[Any]]] = [[np.empty((0, *column.shape), column.dtype)] for column in self._columns]
        for number, edits in enumerate(self.edits()):
            records = self._records(number)
            if records is None:
                continue
            for place, (column, arrays) in enumerate(zip(self._columns, blocks, strict=True)):
                array = as_array(records[f"v{place}"], column)
                if column.name in edits.corrected:
                    rows, values = edits.corrected[column.name]
                    array[rows] = values
                arrays.append(array if edits.keep is None else array[edits.keep])
        return [np.concatenate(arrays) for arrays in blocks]

    def _edits(self, number: int) -> Edits:
        shard = self._increments[number].shard(*self._key)
        later = [changes for changes in self._changes[number + 1 :] if changes is not None]
        relevant = [changes.filter(np.equal(changes["increment"].to_numpy(), number)) for changes in later]
        relevant = [changes for changes in relevant if len(changes)]
        if shard is None or not relevant:
            return Edits(None, {})
        table = pa.concat_tables(relevant)
        rows, out = table["row"].to_numpy(), table["out"].to_numpy()
        keep = np.ones(shard.rows, np.bool_)
        keep[rows[out]] = False
        # The last correction of a row holds, unless the row went out after it.
        latest = {row: place for place, row in enumerate(rows.tolist()) if keep[row]}
        places = np.array([latest[row] for row in sorted(latest)], np.int64)
        corrected = {}
        if len(places):
            chosen = table.take(places)
            for place, column in enumerate(self._columns):
                corrected[column.name] = rows[places], as_array(chosen[f"v{place}"], column)
        return Edits(None if keep.all() else keep, corrected)

    def _records(self, number: int) -> pa.Table | None:
        increment = self._increments[number]
        shard = increment.shard(*self._key)
        if shard is None:
            return None
        data = increment.data
        return _read_table(data.store, increment.records[shard.path], *records_path(data.name, *self._key))

    def _changed(self, increment: Increment) -> pa.Table | None:
        changes = increment.changes_of(*self._key)
        if changes is None:
            return None
        return _read_table(increment.data.store, changes.digest, *changes_path(increment.data.name, *self._key))


def records_schema(columns: Sequence[TensorColumn]) -> pa.Schema:
    """Make the schema of the file with a batch's ids: hashes of features and labels, and the values of labels."""
    fields = [("id", pa.string()), ("features", pa.int64()), ("labels", pa.int64())]
    return pa.schema([*fields, *((f"v{place}", kind(column)) for place, column in enumerate(columns))])


def changes_schema(columns: Sequence[TensorColumn]) -> pa.Schema:
    """Make the schema of the file with a batch's changes: whose row, whether it goes out, else its new labels."""
    fields = [
        ("id", pa.string()),
        ("increment", pa.int32()),
        ("row", pa.int64()),
        ("out", pa.bool_()),
        ("labels", pa.int64()),
    ]
    return pa.schema([*fields, *((f"v{place}", kind(column)) for place, column in enumerate(columns))])


def write_table(store: Store, table: pa.Table, *path: str) -> str:
    """Write a small table to a file, and return the digest of its bytes."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    content = sink.getvalue()
    store.write(memoryview(content), *path)
    return _digest(content)


def _read_table(store: Store, digest: str, *path: str) -> pa.Table:
    content = pa.py_buffer(store.read(*path))
    if _digest(content) != digest:
        raise ShardError(
            f"{store.url(*path)} is damaged (its bytes are not those of its digest): give the batches again, from the "
            "first on and under another name"
        )
    return pq.read_table(pa.BufferReader(content))


def _digest(content: pa.Buffer) -> str:
    return hashlib.blake2b(memoryview(content), digest_size=16).hexdigest()


def _label_columns(increment: Increment) -> tuple[TensorColumn, ...]:
    data = increment.data
    return columns_of((*data.labels, *(() if data.weights is None else (data.weights,))))
