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
from udfs.shards._digest import ShardDigest
from udfs.shards._prepared import ShardError, columns_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from udfs.shards._groups import TensorColumn, TensorGroup
    from udfs.shards._prepared import PreparedData, Shard

__all__ = ["Tensors", "check_shard", "load_rows", "load_shard"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tensors:
    """The rows of a shard, in the order in which they were dealt.

    Parameters
    ----------
    inputs, labels : tuple of array
        One a group, of shape ``(rows, *group.shape)``.
    rows : int
    weights : array of float32, shape (rows,), optional
        Of the rows, each more than 0. Default ``None``: all count alike.
    """

    inputs: tuple[NDArray[Any], ...]
    labels: tuple[NDArray[Any], ...]
    rows: int
    weights: NDArray[np.float32] | None = None


def load_shard(prepared: PreparedData, split: str, partition: int, *, memory_bytes: int | None = None) -> Tensors:
    """Read a shard from its store, one row group after the other.

    Parameters
    ----------
    prepared : PreparedData
    split : {"train", "validation"}
    partition : int
        From 0. For validation it may have no rows.
    memory_bytes : int, optional
        A shard whose tensors take more is written to files of the node's cache folder and mapped into memory,
        read-only; a worker that comes back finds them there. Without it everything is held in memory.

    Raises
    ------
    ShardError
        No such shard, or the file is not the one that was prepared.
    udfs.store.StoreError
        The store cannot be read.
    udfs.node.NodeCacheError
        The cache folder cannot be used.

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
    return _tensors(prepared, arrays)


def load_rows(prepared: PreparedData, split: str, rows: int) -> Tensors:
    """Read the first few rows of the first shard, or fewer where it has fewer: enough to try a network on.

    Parameters
    ----------
    prepared : PreparedData
    split : {"train", "validation"}
    rows : int
        At least 1.

    Raises
    ------
    ShardError, udfs.store.StoreError
        As :func:`load_shard`.
    """
    shard = prepared.shard(split, min(prepared.partitions))
    rows = min(rows, shard.rows)
    arrays = [np.empty((rows, *group.shape), group.dtype) for group in prepared.groups]
    if rows:
        _Reading(prepared, shard).into([_Rows(array) for array in arrays], rows)
    return _tensors(prepared, arrays)


def check_shard(prepared: PreparedData, split: str, partition: int) -> None:
    """Read a shard and keep none of it, to see that it is what was prepared; memory for a row group is enough.

    Raises
    ------
    ShardError, udfs.store.StoreError
        As :func:`load_shard`.
    """
    _Reading(prepared, prepared.shard(split, partition)).into([_Nothing(group) for group in prepared.groups])


def _tensors(prepared: PreparedData, arrays: Sequence[NDArray[Any]]) -> Tensors:
    inputs, labels = len(prepared.inputs), len(prepared.labels)
    weights = None if prepared.weights is None else arrays[-1]
    return Tensors(tuple(arrays[:inputs]), tuple(arrays[inputs : inputs + labels]), len(arrays[0]), weights)


class _Rows:
    """Takes blocks of rows, one after the other, into an array."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array
        self._done = 0

    def __call__(self, rows: int, fill: Callable[[NDArray[Any]], None]) -> None:
        fill(self._array[self._done : self._done + rows])
        self._done += rows


class _Blocks:
    """Takes blocks of rows, one after the other, into a file of numpy's format."""

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


class _Nothing:
    """Takes blocks of rows, to see that they can be taken."""

    def __init__(self, group: TensorGroup) -> None:
        self._group = group

    def __call__(self, rows: int, fill: Callable[[NDArray[Any]], None]) -> None:
        fill(np.empty((rows, *self._group.shape), self._group.dtype))


@dataclass(frozen=True, slots=True)
class _Reading:
    prepared: PreparedData
    shard: Shard

    def into(self, targets: Sequence[_Rows | _Blocks | _Nothing], first: int | None = None) -> None:
        """Give every group's blocks to its target: of all rows, or of the first few."""
        if not self.shard.rows:
            return
        place = self.prepared.path(self.shard)
        columns = columns_of(self.prepared.groups)
        digest = ShardDigest(columns)
        with self.prepared.store.open_input(*place) as source, self._about_parquet():
            file = pq.ParquetFile(source)
            self._check(file.metadata.num_rows, file.schema_arrow.names)
            for table in _tables(file, [column.name for column in columns], first):
                for group, target in zip(self.prepared.groups, targets, strict=True):
                    target(table.num_rows, _Fill(table, group))
                if first is None and self.shard.digest:
                    for column in columns:
                        for chunk in table.column(column.name).chunks:
                            digest.update(column, chunk)
        if first is None and self.shard.digest and digest.hexdigest() != self.shard.digest:
            raise self._damaged("its rows are not those of its digest")

    @contextmanager
    def _about_parquet(self) -> Iterator[None]:
        """Tell errors of Parquet's reader, whose words are of thrift and codecs, from those of the file system."""
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
        url = self.prepared.store.url(*self.prepared.path(self.shard))
        return ShardError(
            f"{url} is damaged ({defect}): prepare the same rows again, which writes it anew: "
            "GridSearch.prepare(df), cerebro_spark.data.prepare(df, ...), or fit(df)"
        )

    def _check(self, rows: int, names: Sequence[str]) -> None:
        missing = [c.name for c in columns_of(self.prepared.groups) if c.name not in names]
        if rows != self.shard.rows or missing:
            defect = f"it has no column {missing[0]!r}" if missing else f"it has {rows:,} rows, not {self.shard.rows:,}"
            raise self._damaged(defect)


def _tables(file: pq.ParquetFile, names: list[str], first: int | None) -> Iterator[pa.Table]:
    if first is None:
        for number in range(file.num_row_groups):
            yield file.read_row_group(number, columns=names)
        return
    for batch in file.iter_batches(first, columns=names):
        yield pa.Table.from_batches([batch.slice(0, first)])
        first -= batch.num_rows
        if first <= 0:
            return


@dataclass(frozen=True, slots=True)
class _Fill:
    """Copies a group's columns of one row group to where they belong."""

    table: pa.Table
    group: TensorGroup

    def __call__(self, out: NDArray[Any]) -> None:
        if not self.group.side_by_side:
            _copy(self.table.column(self.group.columns[0].name), self.group.columns[0], out)
            return
        start = 0
        for column in self.group.columns:
            _copy(self.table.column(column.name), column, out[:, start : start + column.size])
            start += column.size


def _copy(found: pa.ChunkedArray, column: TensorColumn, out: NDArray[Any]) -> None:
    done = 0
    for chunk in found.chunks:
        # No Python object per number: Arrow's buffer is viewed, and copied once.
        flat = chunk.flatten() if column.shape else chunk
        expected = len(chunk) * column.size
        if chunk.null_count or flat.null_count or len(flat) != expected:
            raise ShardError(
                f"column {column.name!r}: {len(flat):,} numbers for {len(chunk):,} rows of shape {column.shape}, "
                f"{chunk.null_count + flat.null_count} null: not what was prepared"
            )
        rows = out[done : done + len(chunk)]
        rows[...] = flat.to_numpy(zero_copy_only=True).reshape(rows.shape)
        done += len(chunk)


def _mapped(prepared: PreparedData, shard: Shard) -> list[NDArray[Any]]:
    stem = f"{prepared.fingerprint}-{shard.split}-{shard.partition:05d}"
    folder = node_folder("shards")
    paths = [folder / f"{stem}-{number}.npy" for number in range(len(prepared.groups))]
    found = _found(paths, prepared, shard)
    if found is not None:
        return found
    _LOG.info("%s %d: %d bytes go to %s", shard.split, shard.partition, shard.nbytes, folder)
    with _about(folder), ExitStack() as stack:
        files = [_HashedFile(stack.enter_context(stack.enter_context(written_once(path)).open("wb"))) for path in paths]
        pairs = zip(files, prepared.groups, strict=True)
        _Reading(prepared, shard).into([_Blocks(file, group, shard.rows) for file, group in pairs])
        for file, path in zip(files, paths, strict=True):
            with written_once(_digest_file(path)) as partial:
                partial.write_text(file.hexdigest())
    found = _found(paths, prepared, shard)
    if found is None:
        raise ShardError(f"{folder}: the files just written there are gone; is something cleaning the folder?")
    return found


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
    """Hash a file of the node's cache: a disk forgets too, and whoever maps the file reads it all the same."""
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
    found = []
    for path, group in zip(paths, prepared.groups, strict=True):
        array = None
        with suppress(OSError, ValueError):
            if _digest_file(path).read_text() == _digest_of(path):
                array = np.load(path, mmap_mode="r")
        if array is None or array.shape != (shard.rows, *group.shape) or array.dtype != group.dtype:
            return None
        found.append(array)
    return found
