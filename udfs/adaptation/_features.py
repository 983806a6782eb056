"""Outputs of frozen layers in a store: a file a layer, batch of rows and shard, which is mapped into memory."""

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

from optimizer.errors import InvalidArgumentError, nearest
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
"""How float32 outputs are stored: as they are, or rounded to half the bytes."""

_DIGEST = 16
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class FeatureFile:
    """The manifest of a file, which is written once the file is complete.

    Parameters
    ----------
    expression : str
        Of the layer, whose trunk's weights it is a hash of.
    rows : int
    shape : tuple of int
        Of one row's output.
    dtype : str
        Of the output's numbers.
    stored : str
        Of the numbers in the file: ``dtype``, or ``"bfloat16"``.
    digest : str
        Of the file.
    error : StorageError
    made_with : str
        As of the :class:`FeatureStore`.
    passed : int
        Rows that passed the trunk from its inputs on for it, and not from a stored layer.
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
    def from_dict(cls, found: Mapping[str, Any]) -> FeatureFile:
        """Read what :meth:`to_dict` wrote."""
        words = {name: typed(found, name, str) for name in ("expression", "dtype", "stored", "digest", "made_with")}
        error = typed(found, "error", dict)
        return cls(
            rows=typed(found, "rows", int),
            shape=tuple(int(size) for size in typed(found, "shape", list)),
            error=StorageError(typed(error, "absolute", float), typed(error, "relative", float)),
            passed=typed(found, "passed", int),
            **words,
        )


class StoredArray:
    """The numbers of a file, mapped into memory and read-only: an array whose rows are read as they are asked for.

    Parameters
    ----------
    path : Path
    file : FeatureFile
    """

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
    """Outputs of frozen layers, under the layer's expression and the fingerprint of the rows.

    It is a value, and travels to the workers. Features are found by all that decides their numbers: the expression
    hashes the layer, its weights and all below it; the fingerprint hashes the rows; `made_with` names the rest.

    Parameters
    ----------
    store : Store
    name : str
        Of a campaign: its files are in the folder ``features/<name>``, and :meth:`retain` deletes no others.
    storage_dtype : {"float32", "bfloat16"}
        How float32 outputs are stored. ``"bfloat16"`` takes half the bytes; they are read back as float32, and each
        file has its error. Default ``"float32"``: as computed.
    made_with : str
        What else the numbers depend on: versions of the framework, the device, the batch size. Features made with
        anything else are not found.
    bytes_per_second : float, optional
        Hold the reading of rows to this rate, to try plans for a slower disk. Default ``None``: as fast as it goes.

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
        if self.storage_dtype not in STORAGE_DTYPES:
            hint = nearest(str(self.storage_dtype), STORAGE_DTYPES)
            raise InvalidArgumentError(
                f"storage_dtype={self.storage_dtype!r}{hint}; one of: {', '.join(STORAGE_DTYPES)}"
            )
        rate = self.bytes_per_second
        if rate is not None and not 0 < rate < math.inf:
            raise InvalidArgumentError(f"bytes_per_second={rate!r}: a positive, finite number, or None")

    def stored_dtype(self, dtype: str) -> str:
        """Return how numbers of a type are stored."""
        return self.storage_dtype if dtype == "float32" else dtype

    def as_stored(self, output: NDArray[Any]) -> NDArray[Any]:
        """Round an output as writing and reading it would."""
        rounded = self.stored_dtype(str(output.dtype)) == "bfloat16"
        return from_bfloat16(to_bfloat16(output)) if rounded else output

    def row_bytes(self, shape: tuple[int, ...], dtype: str) -> int:
        """Count the bytes that one row of an output takes in its file."""
        return math.prod(shape) * int(_file_dtype(self.stored_dtype(dtype)).itemsize)

    def has(self, expression: str, segment: Segment) -> bool:
        """Whether the outputs of a layer are stored for the rows of a segment; their digest is not checked."""
        return self.store.exists(*self._path(expression, segment, "json"))

    def missing(self, expression: str, segments: Collection[Segment]) -> list[Segment]:
        """List the segments for whose rows a layer's outputs are not stored, with a look at each folder once."""
        names = {
            fingerprint: set(self.store.list(*self._folder(expression, fingerprint)))
            for fingerprint in {segment.fingerprint for segment in segments}
        }
        return [one for one in segments if f"{_stem(one)}.json" not in names[one.fingerprint]]

    def expressions(self) -> tuple[str, ...]:
        """List the layers of which something is stored."""
        return tuple(self.store.list(FOLDER, self.name))

    def used_bytes(self) -> int:
        """Count the bytes of all files of the campaign, manifests aside."""
        return self.store.usage(FOLDER, self.name, suffix=".bin")

    def file(self, expression: str, segment: Segment) -> FeatureFile:
        """Read the manifest of a file.

        Raises
        ------
        MissingFeatureError
            There is none.
        DamagedFeatureError
            It is damaged, or of other rows.
        """
        path = self._path(expression, segment, "json")
        if not self.store.exists(*path):
            raise MissingFeatureError(f"{self.store.url(*path)}: no outputs of this layer are stored for these rows")
        try:
            with document(self.store, *path, remedy="it is made again from the rows") as found:
                file = FeatureFile.from_dict(found)
        except DamagedError as error:
            raise DamagedFeatureError(str(error)) from error
        if (file.expression, file.rows, file.made_with) != (expression, segment.rows, self.made_with):
            raise DamagedFeatureError(f"{self.store.url(*path)} is the manifest of another file")
        return file

    def open(self, expression: str, segment: Segment) -> StoredArray:
        """Map the outputs of a layer for the rows of a segment.

        The file is compared with its digest when this process opens it for the first time. A store that is no local
        folder is copied to the node's cache.

        Raises
        ------
        MissingFeatureError
            They are not stored.
        DamagedFeatureError
            A file is damaged.
        udfs.store.StoreError, udfs.node.NodeCacheError
            The store cannot be read, or the node's cache folder cannot be used.
        """
        file = self.file(expression, segment)
        place = self._path(expression, segment, "bin")
        here = Path(self.store.path(*place)) if urlsplit(self.store.uri).scheme == "file" else None
        try:
            path = here or self._copied(place, file)
            intact = _is_intact(path, file)
            if not intact and here is None:
                # The copy may be what is damaged: a disk of a node forgets too.
                path.unlink()
                path = self._copied(place, file)
                intact = _is_intact(path, file)
        except FileNotFoundError as error:
            raise MissingFeatureError(f"{self.store.url(*place)}: the file is gone, its manifest is there") from error
        if not intact:
            if here is None:
                path.unlink()
            raise DamagedFeatureError(
                f"{self.store.url(*place)} is damaged (its bytes are not those of its digest): it is made again from "
                "the rows"
            )
        return StoredArray(path, file)

    @contextmanager
    def writing(
        self, segment: Segment, outputs: Mapping[str, tuple[tuple[int, ...], str]]
    ) -> Iterator[dict[str, FeatureWriter]]:
        """Give a writer for each of several layers' outputs; all become files when the block ends well, or none does.

        Parameters
        ----------
        segment : Segment
        outputs : mapping of str to pair
            Shape and type of one row's output, by expression.

        Raises
        ------
        udfs.store.StoreError
            The store cannot be written. Nothing is left of what the block wrote.
        FeatureError
            The block wrote other rows than the segment has.
        """
        try:
            with ExitStack() as stack:
                writers = {}
                for expression, (shape, dtype) in outputs.items():
                    # An old manifest is not to stand beside a new file.
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
        """Delete what is stored of a layer for the rows of a segment."""
        self.store.delete(*self._path(expression, segment, "json"))
        self.store.delete(*self._path(expression, segment, "bin"))

    def retain(self, expressions: Collection[str], segments: Collection[Segment] | None = None) -> None:
        """Delete what is stored of all other layers, and what was made with anything else than `made_with`.

        Parameters
        ----------
        expressions : collection of str
            Of the layers to keep.
        segments : collection of Segment, optional
            All that are read: augmented copies that are not among them go, and so do the records themselves where only
            their copies are. Default ``None``: whatever rows they are of.

        Raises
        ------
        udfs.store.StoreError
            The store cannot be written.
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
        stems = {_stem(one) for one in segments if folder[-1].startswith(one.fingerprint[:32])}
        if not stems:
            if folder[-1].startswith(COPY):
                self.store.delete(*folder)
            return
        for name in self.store.list(*folder):
            if name.partition(".")[0] not in stems:
                self.store.delete(*folder, name)

    def sweep(self) -> None:
        """Delete what processes that were killed have left half written, which takes of the disk too.

        A process that still writes fails as it ends its file.

        Raises
        ------
        udfs.store.StoreError
            The store cannot be written.
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
        """Copy a file to the node's cache, unless it is there."""
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
    """Writes the outputs of a layer, block by block. Made by :meth:`FeatureStore.writing`."""

    def __init__(self, stream: Any, shape: tuple[int, ...], dtype: str, stored: str) -> None:
        self._stream, self._shape, self._dtype, self._stored = stream, shape, dtype, stored
        self._hash = hashlib.blake2b(digest_size=_DIGEST)
        self.rows = 0
        self.passed = 0
        self.nbytes = 0
        self.error = StorageError()

    def write(self, rows: NDArray[Any], *, passed: int = 0) -> None:
        """Write the next rows, of which some passed the trunk from its inputs on.

        Raises
        ------
        FeatureError
            They are of another shape or type.
        """
        if rows.shape[1:] != self._shape or rows.dtype != self._dtype:
            raise FeatureError(
                f"a layer gave {rows.dtype}{list(rows.shape[1:])}, and its graph says {self._dtype}{list(self._shape)}"
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
            raise FeatureError(f"{self.rows:,} rows of outputs were written for {segment}")

    def file(self, expression: str, made_with: str) -> FeatureFile:
        """Return the manifest of what was written."""
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
    """Compare a file with its digest; once is enough for a process, until the file is written anew."""
    facts = path.stat()
    if facts.st_size != file.nbytes:
        return False
    key = (str(path), facts.st_ino, facts.st_mtime_ns, file.digest)
    if key not in _known_intact():
        with path.open("rb") as content:
            found = hashlib.file_digest(content, lambda: hashlib.blake2b(digest_size=_DIGEST)).hexdigest()
        if found != file.digest:
            return False
        _known_intact().add(key)
    return True
