"""Stored layers of records of a pool, for the time when the records are labelled."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from udfs.adaptation._errors import DamagedFeatureError, MissingFeatureError
from udfs.adaptation._features import FOLDER
from udfs.adaptation._segment import Segment
from udfs.adaptation._trunk import Trunk
from udfs.shards import write_table
from udfs.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.adaptation._features import FeatureStore
    from udfs.adaptation._trunk import TrunkModel

__all__ = ["PoolChunk", "PoolFeatures", "PoolKeeper", "PoolReader"]

_LOG = logging.getLogger(__name__)

POOLS = "pools"
"""Folder of the ledgers of records."""

# Prefix of fingerprints that no batch of labels has.
_PREFIX = "pool"
_DIGITS = 28
_NOT_LABELLED = -1
# Size of a file, and memory of a task for it.
_CHUNK_BYTES = 32 << 20
_LEDGER = pa.schema([("id", pa.string()), ("features", pa.int64())])


@dataclass(frozen=True, slots=True, eq=False)
class PoolChunk:
    """Records of a pool whose layers share files.

    ``segment`` locates the files, as for a batch of labels; ``hashes`` are of the records' features, as in the data's
    ledger.
    """

    segment: Segment
    ids: list[str]
    hashes: NDArray[np.int64]
    expressions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PoolFeatures:
    """Outputs of frozen layers of records without labels, in the folder of a campaign's :class:`FeatureStore`.

    They are stored by the shard of the record's id, where the worker of that shard looks for them. A file has the
    layers of some records and never changes; its ledger, named by a hash of its contents, has their ids. They can be
    deleted at any time.

    Examples
    --------
    >>> import tempfile
    >>> from udfs.adaptation import FeatureStore
    >>> from udfs.store import Store
    >>> pool = PoolFeatures(FeatureStore(Store.from_uri(tempfile.mkdtemp()), "campaign"))
    >>> pool.add("train", 0, ["tweet-7"], np.array([42]), {"e1": np.ones((1, 3), np.float32)})
    >>> [(chunk.ids, chunk.expressions) for chunk in pool.chunks("train", 0)]
    [(['tweet-7'], ('e1',))]
    """

    features: FeatureStore

    def add(
        self,
        split: str,
        partition: int,
        ids: Sequence[str],
        hashes: NDArray[np.int64],
        outputs: Mapping[str, NDArray[Any]],
    ) -> None:
        """Store layers of records of one shard; after a StoreError nothing is stored."""
        segment = Segment(_NOT_LABELLED, _fingerprint(ids, hashes), split, partition, len(ids))
        shapes = {key: (array.shape[1:], str(array.dtype)) for key, array in outputs.items()}
        with self.features.writing(segment, shapes) as files:
            for key, array in outputs.items():
                files[key].write(array)
        table = pa.Table.from_arrays([pa.array(ids, pa.string()), pa.array(hashes, pa.int64())], schema=_LEDGER)
        write_table(self.features.store, table, *self._ledger(split, partition, segment.fingerprint))

    def chunks(self, split: str, partition: int) -> Iterator[PoolChunk]:
        """Yield the stored records of a shard; delete damaged ledgers, and skip unreadable ones."""
        store, folder = self.features.store, self._folder(split, partition)
        layers = self.features.expressions()
        for name in store.list(*folder):
            fingerprint = name.partition(".")[0]
            try:
                content = store.read(*folder, name)
            except StoreError as error:
                _LOG.warning("%s: the layers of its records are computed again", error)
                continue
            try:
                table = pq.read_table(pa.BufferReader(content), schema=_LEDGER)
                ids, hashes = table["id"].to_pylist(), table["features"].to_numpy()
                is_intact = _fingerprint(ids, hashes) == fingerprint
            except (pa.ArrowException, OSError, TypeError):
                is_intact = False
            if not is_intact:
                _LOG.warning("%s is damaged: the layers of its records are computed again", store.url(*folder, name))
                store.delete(*folder, name)
                continue
            segment = Segment(_NOT_LABELLED, fingerprint, split, partition, len(ids))
            yield PoolChunk(segment, ids, hashes, tuple(key for key in layers if self.features.has(key, segment)))

    @property
    def is_empty(self) -> bool:
        """True if nothing is stored."""
        return not self.features.store.exists(POOLS, self.features.name)

    def forget(self, chunk: PoolChunk) -> None:
        """Delete damaged layers of some records."""
        segment = chunk.segment
        self.features.store.delete(*self._ledger(segment.split, segment.partition, segment.fingerprint))
        for key in chunk.expressions:
            self.features.delete(key, segment)

    def drop(self) -> None:
        """Delete all layers of pools, whose space labelled records need."""
        store, name = self.features.store, self.features.name
        store.delete(POOLS, name)
        for expression in self.features.expressions():
            for folder in store.list(FOLDER, name, expression):
                if folder.startswith(_PREFIX):
                    store.delete(FOLDER, name, expression, folder)

    def prune(self) -> None:
        """Delete ledgers without layers, and layers without a ledger, which killed tasks leave."""
        store, name = self.features.store, self.features.name
        ledgers = {
            ledger.partition(".")[0]: (POOLS, name, place, ledger)
            for place in store.list(POOLS, name)
            for ledger in store.list(POOLS, name, place)
        }
        left = set()
        for expression in self.features.expressions():
            for folder in store.list(FOLDER, name, expression):
                fingerprint = folder.partition("-")[0]
                if fingerprint in ledgers:
                    left.add(fingerprint)
                elif folder.startswith(_PREFIX):
                    store.delete(FOLDER, name, expression, folder)
        for fingerprint in ledgers.keys() - left:
            store.delete(*ledgers[fingerprint])

    def _folder(self, split: str, partition: int) -> tuple[str, ...]:
        return (POOLS, self.features.name, f"{split}-{partition:05d}")

    def _ledger(self, split: str, partition: int, fingerprint: str) -> tuple[str, ...]:
        return (*self._folder(split, partition), f"{fingerprint}.parquet")


class PoolReader:
    """Reader of layers of records, which uses those of a scored pool where that saves work, and computes others.

    ``inputs`` are expressions of the networks' inputs, ``wants`` those of the layers; ``flops`` counts the frozen
    layers that ran so far, over all records.

    The bits of a row depend on its batch. A stored layer comes from a batch of the pool, and a computed one from a
    batch without the stored records, so both agree with a pass over all records within 1e-5.
    """

    def __init__(
        self,
        pool: PoolFeatures,
        split: str,
        partition: int,
        models: Sequence[TrunkModel],
        inputs: Collection[str],
        wants: Sequence[str],
    ) -> None:
        self._pool = pool
        self._plain = Trunk(models, inputs, wants)
        self._chunks: list[tuple[PoolChunk, Trunk]] = []
        self._places: dict[tuple[str | None, int], tuple[int, int]] = {}
        self.flops = 0
        trunks: dict[tuple[str, ...], Trunk] = {}
        for chunk in pool.chunks(split, partition):
            key = chunk.expressions
            if key not in trunks:
                trunks[key] = Trunk(models, [*key, *inputs], wants)
            if not self._saves(trunks[key], inputs, wants):
                continue
            self._chunks.append((chunk, trunks[key]))
            for row, place in enumerate(zip(chunk.ids, chunk.hashes.tolist(), strict=True)):
                self._places[place] = (len(self._chunks) - 1, row)

    @property
    def is_empty(self) -> bool:
        """True if no stored layer saves work."""
        return not self._places

    def __call__(
        self, ids: Sequence[str | None], hashes: NDArray[np.int64], raw: Mapping[str, NDArray[Any]]
    ) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
        """Return the layers of a batch of records.

        ``hashes`` are of the features, ``raw`` has the inputs by expression. Return the layers by expression, and a
        mask of the records that passed the frozen layers from the inputs.
        """
        while True:
            stored = [self._places.get(key, (-1, -1)) for key in zip(ids, hashes.tolist(), strict=True)]
            places = np.array(stored, np.int64).reshape(-1, 2)
            numbers = np.unique(places[:, 0]).tolist()
            if numbers == [-1]:
                return self._run(self._plain, raw, len(places)), np.ones(len(places), np.bool_)
            try:
                parts = [(places[:, 0] == number, self._part(number, places, raw)) for number in numbers]
            except _DamagedChunkError as error:
                self._leave(error.number)
                continue
            outputs = {}
            for key, first in parts[0][1].items():
                outputs[key] = np.empty((len(places), *first.shape[1:]), first.dtype)
                for mask, part in parts:
                    outputs[key][mask] = part[key]
            return outputs, places[:, 0] < 0

    def _part(self, number: int, places: NDArray[np.int64], raw: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        mask = places[:, 0] == number
        arrays = {key: array[mask] for key, array in raw.items()}
        if number < 0:
            return self._run(self._plain, arrays, int(mask.sum()))
        chunk, trunk = self._chunks[number]
        try:
            for key in trunk.loads:
                if key in chunk.expressions:
                    arrays[key] = self._pool.features.open(key, chunk.segment)[places[mask, 1]]
        except (DamagedFeatureError, MissingFeatureError) as error:
            _LOG.warning("%s", error)
            raise _DamagedChunkError(number) from error
        return self._run(trunk, arrays, int(mask.sum()))

    def _run(self, trunk: Trunk, arrays: Mapping[str, NDArray[Any]], rows: int) -> dict[str, NDArray[Any]]:
        self.flops += trunk.flops * rows
        return trunk(arrays)

    def _leave(self, number: int) -> None:
        """Drop a damaged chunk."""
        self._pool.forget(self._chunks[number][0])
        self._places = {key: place for key, place in self._places.items() if place[0] != number}

    def _saves(self, trunk: Trunk, inputs: Collection[str], wants: Sequence[str]) -> bool:
        reads_inputs = any(key in inputs and key not in wants for key in trunk.loads)
        return trunk.flops < self._plain.flops or not reads_inputs


class PoolKeeper:
    """Writer of computed layers of a pool's records, in files of limited size.

    A failure of the store ends writing with a warning; the pool is scored without stored layers. ``room`` is the number
    of bytes that may be written.
    """

    def __init__(self, pool: PoolFeatures, split: str, partition: int, keys: tuple[str, ...], room: int) -> None:
        self._pool, self._place, self._keys, self._room = pool, (split, partition), keys, room if keys else 0
        self._ids: list[str] = []
        self._hashes: list[NDArray[np.int64]] = []
        self._outputs: dict[str, list[NDArray[Any]]] = {key: [] for key in keys}
        self._nbytes = 0

    def add(
        self,
        ids: Sequence[str | None],
        hashes: NDArray[np.int64],
        outputs: Mapping[str, NDArray[Any]],
        fresh: NDArray[np.bool_],
    ) -> None:
        """Add the computed records of a batch, as far as there is space."""
        rows = [row for row in np.flatnonzero(fresh).tolist() if ids[row] is not None]
        row_bytes = sum(
            self._pool.features.row_bytes(outputs[key].shape[1:], str(outputs[key].dtype)) for key in self._keys
        )
        if row_bytes:
            rows = rows[: self._room // row_bytes]
        if not rows or not self._room:
            return
        self._room -= len(rows) * row_bytes
        self._nbytes += len(rows) * row_bytes
        self._ids += [str(ids[row]) for row in rows]
        self._hashes.append(hashes[rows])
        for key in self._keys:
            self._outputs[key].append(outputs[key][rows])
        if self._nbytes >= _CHUNK_BYTES:
            self.close()

    def close(self) -> None:
        """Write the added records."""
        if not self._ids:
            return
        outputs = {key: np.concatenate(arrays) for key, arrays in self._outputs.items()}
        try:
            self._pool.add(*self._place, self._ids, np.concatenate(self._hashes), outputs)
        except StoreError as error:
            _LOG.warning("%s: the layers of the pool are not stored", error)
            self._room = 0
        self._ids, self._hashes, self._nbytes = [], [], 0
        self._outputs = {key: [] for key in self._keys}


class _DamagedChunkError(Exception):
    """Failure to read the chunk with a number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _fingerprint(ids: Sequence[str], hashes: NDArray[np.int64]) -> str:
    digest = hashlib.blake2b(digest_size=_DIGITS // 2)
    for record_id in ids:
        digest.update(f"{len(record_id)}:{record_id}".encode())
    digest.update(np.ascontiguousarray(hashes, np.int64).tobytes())
    return _PREFIX + digest.hexdigest()
