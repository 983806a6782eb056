"""Load a shard's tensors into memory, or map them from the node's disk."""

from __future__ import annotations

import hashlib
import logging
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from optimizer.errors import CerebroError
from udfs.node import CACHE_VARIABLE, NodeCacheError, node_folder, written_once
from udfs.shards._arrays import copy_column
from udfs.shards._digest import ShardDigest
from udfs.shards._prepared_data import ShardError, columns_of
from udfs.shards._shard import Tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from udfs.shards._groups import TensorColumn, TensorGroup
    from udfs.shards._prepared_data import Part, PreparedData
    from udfs.shards._row_view import RowView
    from udfs.shards._shard import Shard

__all__ = ["check_shard", "load_rows", "load_sample", "load_shard", "read_batches"]

_LOG = logging.getLogger(__name__)

# Limits of a sample in rows and bytes, and the rows that it has at least, whatever their size.
_SAMPLE, _SAMPLE_BYTES, _FEWEST = 64, 2**21, 4


def load_shard(prepared: PreparedData, split: str, partition: int, *, memory_bytes: int | None = None) -> Tensors:
    """Read a shard from its store, one row group after the other.

    A validation partition may have no rows. A shard whose tensors take more than ``memory_bytes`` is written to files
    of the node's cache folder and mapped into memory, read-only; a worker that comes back finds them there. Raise
    ShardError if there is no such shard, or the file is not the one that was prepared.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile
    >>> from udfs.shards import PreparedData, Shard, TensorColumn, TensorGroup, load_shard
    >>> from udfs.store import Store
    >>> age, old = TensorColumn("age", "float32"), TensorColumn("old", "int64")
    >>> groups = (TensorGroup("features", (age,), joined=True),), (TensorGroup("old", (old,)),)
    >>> shard = Shard("train", 0, "train/shard-00000.parquet", rows=2, nbytes=24)
    >>> prepared = PreparedData(Store.from_uri(tempfile.mkdtemp()), "ages", *groups, (shard,), 0, 0.0, "f00")
    >>> with prepared.store.writing(*prepared.path(shard)) as file:
    ...     pq.write_table(pa.table({"age": pa.array([30, 70], pa.float32()), "old": [0, 1]}), file)
    >>> tensors = load_shard(prepared, "train", 0)
    >>> tensors.inputs[0].tolist(), tensors.labels[0].tolist()
    ([[30.0], [70.0]], [0, 1])
    """
    shard = prepared.shard(split, partition)
    if memory_bytes is not None and shard.nbytes > memory_bytes:
        arrays = _mapped(prepared, shard)
    else:
        arrays = [np.empty((shard.rows, *group.shape), group.dtype) for group in prepared.groups]
        _Reading(prepared, shard).into([_Rows(array) for array in arrays])
    return _tensors(prepared, arrays, shard)


def load_rows(prepared: PreparedData, split: str, rows: int, *, view: RowView | None = None) -> Tensors:
    """Read the first few rows of the first shard, or fewer where it has fewer: enough to try a network on.

    With a ``view`` they are rows of the view, of the first shard that has any.

    Raises
    ------
    ShardError, udfs.store.StoreError
        As :func:`load_shard`.
    udfs.training.TrainerError
        The data are not suitable for the view.
    """
    shards = [prepared.shard(split, partition) for partition in sorted(prepared.partitions)]
    shard = shards[0] if view is None else next((each for each in shards if view.count(each)), shards[0])
    needed = min(rows if view is None else view.rows_to_read(shard, rows), shard.rows)
    arrays = [np.empty((needed, *group.shape), group.dtype) for group in prepared.groups]
    if needed:
        _Reading(prepared, shard).into([_Rows(array) for array in arrays], needed)
    tensors = _tensors(prepared, arrays, shard)
    return tensors if view is None else _first(view.apply(tensors), rows)


def load_sample(prepared: PreparedData, *, view: RowView | None = None) -> Tensors:
    """Read some training rows, to decide the meaning of their labels: up to 64, and fewer if rows are large.

    Raises
    ------
    ShardError, udfs.store.StoreError
        As :func:`load_shard`.
    udfs.training.TrainerError
        The data are not suitable for the view.
    """
    nbytes = sum(group.nbytes for group in prepared.viewed(view).groups)
    return load_rows(prepared, "train", min(_SAMPLE, max(_FEWEST, _SAMPLE_BYTES // max(nbytes, 1))), view=view)


def _first(tensors: Tensors, rows: int) -> Tensors:
    """Copy the first rows of a view to arrays of numpy."""
    rows = min(rows, tensors.rows)
    inputs, labels = (tuple(array[:rows] for array in arrays) for arrays in (tensors.inputs, tensors.labels))
    weights = None if tensors.weights is None else tensors.weights[:rows]
    return Tensors(inputs, labels, rows, weights, tensors.names)


def check_shard(prepared: PreparedData, split: str, partition: int) -> None:
    """Read a shard and keep none of it, to see that it is what was prepared; memory for a row group is enough.

    Raises
    ------
    ShardError, udfs.store.StoreError
        As :func:`load_shard`.
    """
    for _ in _Reading(prepared, prepared.shard(split, partition)).arrays():
        pass


def read_batches(prepared: PreparedData, split: str, partition: int, size: int) -> Iterator[Tensors]:
    """Read a shard in batches and in order, with at most a row group of each file in memory.

    The last batch may be short. Damage of a file may show after its last batch only.

    Raises
    ------
    ShardError, udfs.store.StoreError
        As :func:`load_shard`. That a file is damaged may show after its last batch only.
    """
    waiting: list[list[NDArray[Any]]] = []
    count = 0
    for arrays in _Reading(prepared, prepared.shard(split, partition)).arrays():
        rows = len(arrays[0])
        start = 0
        while count + rows - start >= size:
            end = start + size - count
            waiting.append([array[start:end] for array in arrays])
            yield _tensors(prepared, _joined(waiting))
            waiting, count, start = [], 0, end
        if start < rows:
            waiting.append([array[start:] for array in arrays])
            count += rows - start
    if waiting:
        yield _tensors(prepared, _joined(waiting))


def _joined(blocks: Sequence[Sequence[NDArray[Any]]]) -> list[NDArray[Any]]:
    return [np.concatenate(arrays) if len(arrays) > 1 else arrays[0] for arrays in zip(*blocks, strict=True)]


def _tensors(prepared: PreparedData, arrays: Sequence[NDArray[Any]], shard: Shard | None = None) -> Tensors:
    inputs, labels = len(prepared.inputs), len(prepared.labels)
    weights = None if prepared.weights is None else arrays[-1]
    names = tuple(group.name for group in prepared.inputs)
    rows, offsets = len(arrays[0]), None
    if shard is not None and shard.lengths is not None:
        # The last series may be cut where only the first rows are read.
        ends = np.minimum(np.cumsum(shard.lengths, dtype=np.int64), rows)
        offsets = np.unique(np.concatenate([[0], ends]))
    return Tensors(tuple(arrays[:inputs]), tuple(arrays[inputs : inputs + labels]), rows, weights, names, offsets)


class _Rows:
    """Sink that writes consecutive blocks of rows to an array."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array
        self._done = 0

    def __call__(self, rows: int, fill: Callable[[NDArray[Any]], None]) -> None:
        fill(self._array[self._done : self._done + rows])
        self._done += rows


class _Blocks:
    """Sink that writes consecutive blocks of rows to a file in numpy's format."""

    def __init__(self, file: Any, group: TensorGroup, rows: int) -> None:
        self._file, self._group = file, group
        descr = np.lib.format.dtype_to_descr(np.dtype(group.dtype))
        header = {"descr": descr, "fortran_order": False, "shape": (rows, *group.shape)}
        np.lib.format.write_array_header_1_0(file, header)

    def __call__(self, rows: int, fill: Callable[[NDArray[Any]], None]) -> None:
        block = np.empty((rows, *self._group.shape), self._group.dtype)
        fill(block)
        # Written and not mapped: on a full disk a write fails with an error, a mapped page kills the process.
        self._file.write(block.data)


@dataclass(frozen=True, slots=True)
class _Reading:
    prepared: PreparedData
    shard: Shard

    def into(self, targets: Sequence[_Rows | _Blocks], first: int | None = None) -> None:
        """Write the blocks of every group to its target, for all rows or the first few."""
        for rows, fills in self.blocks(first):
            for fill, target in zip(fills, targets, strict=True):
                target(rows, fill)

    def arrays(self) -> Iterator[list[NDArray[Any]]]:
        """Yield an array of each group, block by block."""
        for rows, fills in self.blocks():
            arrays = [np.empty((rows, *group.shape), group.dtype) for group in self.prepared.groups]
            for fill, array in zip(fills, arrays, strict=True):
                fill(array)
            yield arrays

    def blocks(self, first: int | None = None) -> Iterator[tuple[int, list[_Fill]]]:
        """Yield the number of rows of each block, and what copies each group's: of all rows, or of the first few."""
        left = first
        for part in self.prepared.parts(self.shard):
            if left == 0:
                return
            for rows, fills in _File(self.prepared, part).blocks(left):
                yield rows, fills
                left = None if left is None else left - rows


@dataclass(frozen=True, slots=True)
class _File:
    prepared: PreparedData
    part: Part

    def blocks(self, first: int | None) -> Iterator[tuple[int, list[_Fill]]]:
        part = self.part
        columns = columns_of(self.prepared.groups)
        digest = ShardDigest(columns) if first is None and part.digest else None
        start = 0
        with self.prepared.store.open_input(*part.path) as source, self.about_parquet():
            file = pq.ParquetFile(source)
            self._check(file.metadata.num_rows, file.schema_arrow.names)
            for table in _tables(file, [column.name for column in columns], first):
                if digest is not None:
                    for column in columns:
                        for chunk in table.column(column.name).chunks:
                            digest.update(column, chunk)
                kept = np.arange(start, start + table.num_rows)
                start += table.num_rows
                if part.keep is not None:
                    chosen = part.keep[kept]
                    table, kept = table.filter(pa.array(chosen)), kept[chosen]  # noqa: PLW2901
                if first is not None:
                    table, kept = table.slice(0, first), kept[:first]  # noqa: PLW2901
                    first -= len(kept)
                if len(kept):
                    yield len(kept), [_Fill(self, table, group, kept) for group in self.prepared.groups]
                if first == 0:
                    return
        if digest is not None and digest.hexdigest() != part.digest:
            raise self._damaged("its rows are not those of its digest")

    @contextmanager
    def about_parquet(self) -> Iterator[None]:
        """Convert errors of the Parquet reader to errors of the shard, except those of the file system."""
        try:
            yield
        except CerebroError:
            raise
        except (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            reason = " ".join(str(error).split())[:200]
            raise self._damaged(f"{type(error).__name__}: {reason}") from error

    def _damaged(self, defect: str) -> ShardError:
        url = self.prepared.store.url(*self.part.path)
        return ShardError(f"{url} is damaged ({defect}): {self.prepared.remedy}")

    def _check(self, rows: int, names: Sequence[str]) -> None:
        missing = [c.name for c in columns_of(self.prepared.groups) if c.name not in names]
        if rows != self.part.rows or missing:
            defect = f"it has no column {missing[0]!r}" if missing else f"it has {rows:,} rows, not {self.part.rows:,}"
            raise self._damaged(defect)


def _tables(file: pq.ParquetFile, names: list[str], first: int | None) -> Iterator[pa.Table]:
    if first is None:
        for number in range(file.num_row_groups):
            yield file.read_row_group(number, columns=names)
    else:
        for batch in file.iter_batches(first, columns=names):
            yield pa.Table.from_batches([batch])


@dataclass(frozen=True, slots=True)
class _Fill:
    """Copies a group's columns of some rows of a file to where they belong."""

    file: _File
    table: pa.Table
    group: TensorGroup
    kept: NDArray[np.int64]

    def __call__(self, out: NDArray[Any]) -> None:
        with self.file.about_parquet():
            if not self.group.side_by_side:
                self._copy(self.group.columns[0], out)
                return
            start = 0
            for column in self.group.columns:
                self._copy(column, out[:, start : start + column.size])
                start += column.size

    def _copy(self, column: TensorColumn, out: NDArray[Any]) -> None:
        copy_column(self.table.column(column.name), column, out)
        if column.name in self.file.part.corrected:
            rows, values = self.file.part.corrected[column.name]
            first, end = np.searchsorted(rows, (self.kept[0], self.kept[-1] + 1))
            places = np.searchsorted(self.kept, rows[first:end])
            out[places] = values[first:end].reshape(-1, *out.shape[1:])


def _mapped(prepared: PreparedData, shard: Shard) -> list[NDArray[Any]]:
    stem = f"{prepared.fingerprint}-{shard.split}-{shard.partition:05d}"
    folder = node_folder("shards")
    paths = [folder / f"{stem}-{number}.npy" for number in range(len(prepared.groups))]
    arrays = _found(paths, prepared, shard)
    if arrays is not None:
        return arrays
    _LOG.info("%s %d: %d bytes go to %s", shard.split, shard.partition, shard.nbytes, folder)
    with _about(folder), ExitStack() as stack:
        files = [_HashedFile(stack.enter_context(stack.enter_context(written_once(path)).open("wb"))) for path in paths]
        pairs = zip(files, prepared.groups, strict=True)
        _Reading(prepared, shard).into([_Blocks(file, group, shard.rows) for file, group in pairs])
        for file, path in zip(files, paths, strict=True):
            with written_once(_digest_file(path)) as partial:
                partial.write_text(file.hexdigest())
    arrays = _found(paths, prepared, shard)
    if arrays is None:
        raise ShardError(f"{folder}: the files just written there are gone; is something cleaning the folder?")
    return arrays


class _HashedFile:
    """A file that hashes what is written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.blake2b(digest_size=16)

    def write(self, data: Any) -> int:
        """Write bytes, and hash them."""
        self._hash.update(data)
        return self._file.write(data)

    def hexdigest(self) -> str:
        """Compute the hash of what was written."""
        return self._hash.hexdigest()


def _digest_file(path: Path) -> Path:
    return path.with_suffix(".digest")


def _digest_of(path: Path) -> str:
    """Hash a file of the node's cache, whose disk may be damaged."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


@contextmanager
def _about(folder: Path) -> Iterator[None]:
    try:
        yield
    except CerebroError:
        raise
    except OSError as error:
        raise NodeCacheError(f"{folder}: {error}; name a cache folder on a larger disk in {CACHE_VARIABLE}") from error


def _found(paths: Sequence[Path], prepared: PreparedData, shard: Shard) -> list[NDArray[Any]] | None:
    """Map the arrays that were written before, if all are there and have the right shapes."""
    arrays = []
    for path, group in zip(paths, prepared.groups, strict=True):
        array = None
        with suppress(OSError, ValueError):
            if _digest_file(path).read_text() == _digest_of(path):
                array = np.load(path, mmap_mode="r")
        if array is None or array.shape != (shard.rows, *group.shape) or array.dtype != group.dtype:
            return None
        arrays.append(array)
    return arrays
