"""Store of outputs of frozen layers, with a memory-mapped file for each layer, batch and shard."""

from __future__ import annotations

import functools
import hashlib
import math
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from optimizer.arguments import one_of
from optimizer.errors import InvalidArgumentError
from udfs.adaptation._bfloat16 import StorageError, from_bfloat16, storage_error, to_bfloat16
from udfs.adaptation._errors import DamagedFeatureError, FeatureError, MissingFeatureError
from udfs.adaptation._segment import COPY
from udfs.documents import DamagedError, document, typed, write_document
from udfs.names import check_name
from udfs.node import node_folder, written_once
from udfs.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from numpy.typing import NDArray

    from udfs.adaptation._segment import Segment
    from udfs.store import Store

__all__ = ["STORAGE_DTYPES", "FeatureFile", "FeatureStore", "FeatureWriter", "StoredArray"]

FOLDER = "features"
STORAGE_DTYPES = ("float32", "bfloat16")
"""Types of stored float32 outputs: unchanged, or rounded to half the bytes."""

_DIGEST = 16
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class FeatureFile:
    """Manifest of a file, which is written once the file is complete.

    ``shape`` and ``dtype`` are those of one row's output; ``stored`` is the type in the file, ``dtype`` or
    ``"bfloat16"``. ``made_with`` is as in :class:`FeatureStore`; ``passed`` counts the rows that passed the trunk from
    its inputs, and not from a stored layer.
    """

    expression: str
    rows: int
    shape: tuple[int, ...]
    dtype: str
    stored: str
    digest: str
    error: StorageError
    made_with: str
    passed: int

    @property
    def nbytes(self) -> int:
        """Bytes of the file."""
        return self.rows * math.prod(self.shape) * int(_file_dtype(self.stored).itemsize)

    def to_dict(self) -> dict[str, Any]:
        """Convert for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, manifest: Mapping[str, Any]) -> FeatureFile:
        """Read the result of :meth:`to_dict`."""
        words = {name: typed(manifest, name, str) for name in ("expression", "dtype", "stored", "digest", "made_with")}
        error = typed(manifest, "error", dict)
        return cls(
            rows=typed(manifest, "rows", int),
            shape=tuple(int(size) for size in typed(manifest, "shape", list)),
            error=StorageError(typed(error, "absolute", float), typed(error, "relative", float)),
            passed=typed(manifest, "passed", int),
            **words,
        )


class StoredArray:
    """Read-only array of a memory-mapped file, whose rows are read on access."""

    def __init__(self, path: Path, file: FeatureFile) -> None:
        self._mapped = np.memmap(path, _file_dtype(file.stored), "r", shape=(file.rows, *file.shape))
        self._rounded = file.stored == "bfloat16"
        self.shape = (file.rows, *file.shape)
        self.dtype = np.dtype(file.dtype)
        self.row_bytes = file.nbytes // file.rows

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, picked: Any) -> NDArray[Any]:
        rows = self._mapped[picked]
        return from_bfloat16(rows) if self._rounded else np.asarray(rows)


@dataclass(frozen=True, slots=True)
class FeatureStore:
    """Outputs of frozen layers by the layer's expression and the fingerprint of the rows.

    It is a value that can be sent to workers. The key of features has everything that determines them: the expression
    is a hash of the layer, its weights and the layers below; the fingerprint is a hash of the rows; `made_with` has the
    rest. With ``storage_dtype="bfloat16"``, float32 outputs take half the bytes; they are read as float32, and each
    file has its error. ``made_with`` names versions of the framework, the device and the batch size; features with
    another value are not used. ``bytes_per_second`` limits the reading rate, to try plans for a slower disk.

    Examples
    --------
    >>> import tempfile
    >>> from udfs.adaptation import Segment
    >>> from udfs.store import Store
    >>> features = FeatureStore(Store.from_uri(tempfile.mkdtemp()), "campaign")
    >>> segment = Segment(0, "f00d", "train", 0, rows=2)
    >>> with features.writing(segment, {"e1": ((3,), "float32")}) as files:
    ...     files["e1"].write(np.ones((2, 3), np.float32))
    >>> features.open("e1", segment)[[1]].tolist()
    [[1.0, 1.0, 1.0]]
    """

    store: Store
    name: str
    storage_dtype: str = "float32"
    made_with: str = ""
    bytes_per_second: float | None = None

    def __post_init__(self) -> None:
        check_name(self.name, "a campaign's features")
        one_of("storage_dtype", self.storage_dtype, STORAGE_DTYPES)
        rate = self.bytes_per_second
        if rate is not None and not 0 < rate < math.inf:
            raise InvalidArgumentError(f"bytes_per_second must be a positive, finite number or None, got {rate!r}")

    def stored_dtype(self, dtype: str) -> str:
        """Return the stored type of a type of numbers."""
        return self.storage_dtype if dtype == "float32" else dtype

    def as_stored(self, output: NDArray[Any]) -> NDArray[Any]:
        """Round an output as writing and reading it does."""
        rounded = self.stored_dtype(str(output.dtype)) == "bfloat16"
        return from_bfloat16(to_bfloat16(output)) if rounded else output

    def row_bytes(self, shape: tuple[int, ...], dtype: str) -> int:
        """Count the bytes of one row of an output in its file."""
        return math.prod(shape) * int(_file_dtype(self.stored_dtype(dtype)).itemsize)

    def has(self, expression: str, segment: Segment) -> bool:
        """Return True if the outputs of a layer are stored for a segment, without verifying their digest."""
        return self.store.exists(*self._path(expression, segment, "json"))

    def missing(self, expression: str, segments: Collection[Segment]) -> list[Segment]:
        """List the segments without stored outputs of a layer, reading each folder once."""
        names = {
            fingerprint: set(self.store.list(*self._folder(expression, fingerprint)))
            for fingerprint in {segment.fingerprint for segment in segments}
        }
        return [segment for segment in segments if f"{_stem(segment)}.json" not in names[segment.fingerprint]]

    def expressions(self) -> tuple[str, ...]:
        """List the expressions of stored layers."""
        return tuple(self.store.list(FOLDER, self.name))

    def used_bytes(self) -> int:
        """Count the bytes of all files of the campaign without manifests."""
        return self.store.usage(FOLDER, self.name, suffix=".bin")

    def file(self, expression: str, segment: Segment) -> FeatureFile:
        """Read the manifest of a file; raise DamagedFeatureError if it belongs to other rows."""
        path = self._path(expression, segment, "json")
        if not self.store.exists(*path):
            raise MissingFeatureError(
                f"{self.store.url(*path)} must have outputs of the layer for these rows, got no file"
            )
        try:
            with document(self.store, *path, remedy="it is computed again from the rows") as manifest:
                file = FeatureFile.from_dict(manifest)
        except DamagedError as error:
            raise DamagedFeatureError(str(error)) from error
        if (file.expression, file.rows, file.made_with) != (expression, segment.rows, self.made_with):
            raise DamagedFeatureError(
                f"{self.store.url(*path)} must be the manifest of its file, got that of another one"
            )
        return file

    def open(self, expression: str, segment: Segment) -> StoredArray:
        """Map the outputs of a layer for the rows of a segment.

        The digest of the file is verified when this process opens it for the first time. Files of a store that is not a
        local folder are copied to the node's cache. Raise MissingFeatureError if the outputs are not stored, and
        DamagedFeatureError if a file is damaged.
        """
        file = self.file(expression, segment)
        place = self._path(expression, segment, "bin")
        here = Path(self.store.path(*place)) if urlsplit(self.store.uri).scheme == "file" else None
        try:
            path = here or self._copied(place, file)
            intact = _is_intact(path, file)
            if not intact and here is None:
                # The copy on the disk of the node may be the damaged one.
                path.unlink()
                path = self._copied(place, file)
                intact = _is_intact(path, file)
        except FileNotFoundError as error:
            raise MissingFeatureError(f"{self.store.url(*place)} must exist, as its manifest does") from error
        if not intact:
            if here is None:
                path.unlink()
            raise DamagedFeatureError(
                f"{self.store.url(*place)} must have the bytes of its digest, got others: it is computed again from "
                "the rows"
            )
        return StoredArray(path, file)

    @contextmanager
    def writing(
        self, segment: Segment, outputs: Mapping[str, tuple[tuple[int, ...], str]]
    ) -> Iterator[dict[str, FeatureWriter]]:
        """Provide writers for the outputs of several layers, which all become files when the block succeeds.

        ``outputs`` has the shape and type of one row's output by expression. If the block fails, or has written another
        number of rows (FeatureError), its files are removed.
        """
        try:
            with ExitStack() as stack:
                writers = {}
                for expression, (shape, dtype) in outputs.items():
                    # Delete an old manifest before its file changes.
                    self.store.delete(*self._path(expression, segment, "json"))
                    stream = stack.enter_context(self.store.writing(*self._path(expression, segment, "bin")))
                    writers[expression] = FeatureWriter(stream, shape, dtype, self.stored_dtype(dtype))
                yield writers
                for writer in writers.values():
                    writer.check(segment)
            for expression, writer in writers.items():
                file = writer.file(expression, self.made_with)
                write_document(self.store, file.to_dict(), *self._path(expression, segment, "json"))
        except BaseException:
            for expression in outputs:
                with suppress(StoreError):
                    if not self.has(expression, segment):
                        self.store.delete(*self._path(expression, segment, "bin"))
            raise

    def delete(self, expression: str, segment: Segment) -> None:
        """Delete the stored outputs of a layer for a segment."""
        self.store.delete(*self._path(expression, segment, "json"))
        self.store.delete(*self._path(expression, segment, "bin"))

    def retain(self, expressions: Collection[str], segments: Collection[Segment] | None = None) -> None:
        """Delete all other layers, and outputs with another `made_with`.

        All segments of the kept ``expressions`` stay by default, else those of ``segments`` with the augmented copies
        that are used.

        Raises
        ------
        udfs.store.StoreError
            Writing to the store fails.
        """
        for expression in self.expressions():
            if expression not in expressions:
                self.store.delete(FOLDER, self.name, expression)
                continue
            for folder in self.store.list(FOLDER, self.name, expression):
                if not folder.endswith(f"-{self._made}"):
                    self.store.delete(FOLDER, self.name, expression, folder)
                elif segments is not None:
                    self._retain_rows((FOLDER, self.name, expression, folder), segments)

    def _retain_rows(self, folder: tuple[str, ...], segments: Collection[Segment]) -> None:
        stems = {_stem(segment) for segment in segments if folder[-1].startswith(segment.fingerprint[:32])}
        if not stems:
            if folder[-1].startswith(COPY):
                self.store.delete(*folder)
            return
        for name in self.store.list(*folder):
            if name.partition(".")[0] not in stems:
                self.store.delete(*folder, name)

    def sweep(self) -> None:
        """Delete partial files of processes that were killed.

        A process that still writes fails when it finishes its file.

        Raises
        ------
        udfs.store.StoreError
            Writing to the store fails.
        """
        self.store.sweep(FOLDER, self.name)

    @property
    def _made(self) -> str:
        return hashlib.blake2b(f"{self.storage_dtype}|{self.made_with}".encode(), digest_size=4).hexdigest()

    def _folder(self, expression: str, fingerprint: str) -> tuple[str, ...]:
        return (FOLDER, self.name, expression, f"{fingerprint[:32]}-{self._made}")

    def _path(self, expression: str, segment: Segment, suffix: str) -> tuple[str, ...]:
        return (*self._folder(expression, segment.fingerprint), f"{_stem(segment)}.{suffix}")

    def _copied(self, place: tuple[str, ...], file: FeatureFile) -> Path:
        """Copy a file to the node's cache, unless it exists there."""
        key = hashlib.blake2b("|".join((self.store.uri, *place, file.digest)).encode(), digest_size=_DIGEST)
        path = node_folder("features") / f"{key.hexdigest()}.bin"
        if not path.exists():
            if not self.store.exists(*place):
                raise FileNotFoundError(place)
            with written_once(path) as partial, partial.open("wb") as target, self.store.open_input(*place) as source:
                while block := source.read(_BLOCK):
                    target.write(block)
        return path


class FeatureWriter:
    """Writer of the outputs of a layer in blocks, which :meth:`FeatureStore.writing` creates."""

    def __init__(self, stream: Any, shape: tuple[int, ...], dtype: str, stored: str) -> None:
        self._stream, self._shape, self._dtype, self._stored = stream, shape, dtype, stored
        self._hash = hashlib.blake2b(digest_size=_DIGEST)
        self.rows = 0
        self.passed = 0
        self.nbytes = 0
        self.error = StorageError()

    def write(self, rows: NDArray[Any], *, passed: int = 0) -> None:
        """Write the next rows, some of which passed the trunk from its inputs.

        Raises
        ------
        FeatureError
            The rows have another shape or type.
        """
        if rows.shape[1:] != self._shape or rows.dtype != self._dtype:
            raise FeatureError(
                f"a layer must return {self._dtype}{list(self._shape)}, as in its graph, got "
                f"{rows.dtype}{list(rows.shape[1:])}"
            )
        block = np.ascontiguousarray(rows)
        if self._stored == "bfloat16":
            exact, block = block, to_bfloat16(block)
            self.error = self.error.joined(storage_error(exact, from_bfloat16(block)))
        data = block.reshape(-1).view(np.uint8).data
        self._stream.write(data)
        self._hash.update(data)
        self.rows += len(rows)
        self.passed += passed
        self.nbytes += len(data)

    def check(self, segment: Segment) -> None:
        """Raise FeatureError unless all rows of the segment were written."""
        if self.rows != segment.rows:
            raise FeatureError(f"outputs must have {segment.rows:,} rows for {segment}, got {self.rows:,}")

    def file(self, expression: str, made_with: str) -> FeatureFile:
        """Return the manifest of the written file."""
        return FeatureFile(
            expression,
            self.rows,
            self._shape,
            self._dtype,
            self._stored,
            self._hash.hexdigest(),
            self.error,
            made_with,
            self.passed,
        )


def _stem(segment: Segment) -> str:
    return f"{segment.split}-{segment.partition:05d}"


def _file_dtype(stored: str) -> np.dtype[Any]:
    return np.dtype(np.uint16 if stored == "bfloat16" else stored)


@functools.cache
def _known_intact() -> set[tuple[str, int, int, str]]:
    return set()


def _is_intact(path: Path, file: FeatureFile) -> bool:
    """Verify the digest of a file, once per process and version of the file."""
    facts = path.stat()
    if facts.st_size != file.nbytes:
        return False
    key = (str(path), facts.st_ino, facts.st_mtime_ns, file.digest)
    if key not in _known_intact():
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, lambda: hashlib.blake2b(digest_size=_DIGEST)).hexdigest()
        if digest != file.digest:
            return False
        _known_intact().add(key)
    return True
