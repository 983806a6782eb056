"""Store of a run's data and checkpoints: a folder of any file system that driver and workers both reach."""

from __future__ import annotations

import errno
import functools
import re
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from optimizer.errors import CerebroError, nearest

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterator

__all__ = ["Store", "StoreError", "StoreFullError"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_HADOOP_ONLY = {"s3a": "s3", "s3n": "s3"}
_SCHEMES = ("file", "hdfs", "viewfs", "s3", "gs", "abfs", "abfss")

# They show an object only once it is whole, have no folders to make, and move by copying.
_OBJECT_STORES = {"s3", "gcs", "abfs"}
# A move there does not replace what has the name already.
_KEEPS_TARGET = {"hdfs"}
_PARTIAL = ".partial-"

_FULL = {errno.ENOSPC, errno.EDQUOT}
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}


class StoreError(CerebroError, OSError):
    """The store cannot be opened, read or written; the message says which place, why, and what would help."""


class StoreFullError(StoreError):
    """The store's disk or quota is full."""


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of files: local, of HDFS, or of an object store, by ``pyarrow.fs``.

    It is a value: it travels to the workers as its URI, and each process opens the file system once, when it first
    needs it. All methods take the parts of a path below the folder.

    Parameters
    ----------
    uri : str
        Normalized URI, from :meth:`from_uri`.

    Examples
    --------
    >>> import tempfile
    >>> store = Store.from_uri(tempfile.mkdtemp())
    >>> store.write(b"42", "answers", "first")
    >>> store.list("answers"), store.read("answers", "first")
    (['first'], b'42')
    """

    uri: str

    @classmethod
    def from_uri(cls, uri: str) -> Store:
        """Name a store; nothing is written yet.

        Parameters
        ----------
        uri : str
            A local path, ``file:///...``, ``hdfs://...``, ``s3://...`` (``s3a`` too), or another that ``pyarrow.fs``
            knows. Spark's workers have to reach the same place by it.

        Raises
        ------
        StoreError
            No file system has such a URI, or it cannot be opened.
        """
        if not uri:
            raise StoreError("a store's URI is empty: give a folder that every worker reaches")
        scheme = _SCHEME.match(uri)
        if scheme is None:
            store = cls(Path(uri).absolute().as_uri())
        else:
            store = cls(_HADOOP_ONLY.get(scheme[1], scheme[1]) + uri[scheme.end(1) :].rstrip("/"))
        _opened(store.uri)
        return store

    def path(self, *parts: str) -> str:
        """Name a place within the file system.

        Raises
        ------
        StoreError
            The parts lead out of the store.
        """
        _, root = _opened(self.uri)
        return "/".join((root, *_segments(parts)))

    def url(self, *parts: str) -> str:
        """Name a place for other programs: Spark, petastorm."""
        return "/".join((self.uri, *(quote(part) for part in _segments(parts))))

    def read(self, *parts: str, allocate: Callable[[int], memoryview] | None = None) -> bytes:
        """Read a file's bytes.

        Parameters
        ----------
        *parts : str
            Path of the file.
        allocate : callable, optional
            Function of a number of bytes that returns writable memory for them. By default they are ``bytes``.

        Raises
        ------
        StoreError
            It is not there, or cannot be read.
        """
        with _about(self, parts, "read"), self.open_input(*parts) as file:
            if allocate is None:
                data: bytes = file.read()
                return data
            memory = allocate(file.size())
            place = 0
            while place < len(memory):
                place += file.readinto(memory[place:]) or len(memory)
        return cast("bytes", memory)

    def write(self, data: bytes | bytearray | memoryview, *parts: str) -> None:
        """Write a file, or replace one: concurrent readers get the old one or the new one, never half of one.

        Raises
        ------
        StoreError
            The disk is full, the folder is read-only, or the store cannot be reached.
        """
        with self.writing(*parts) as file:
            file.write(data)

    @contextmanager
    def writing(self, *parts: str) -> Iterator[Any]:
        """Open a stream whose bytes become the file when the block ends well, and leave nothing when it does not.

        Raises
        ------
        StoreError
            As :meth:`write`.

        Notes
        -----
        HDFS does not replace a file in one step: for a moment a replaced file is not there.
        """
        system, _ = _opened(self.uri)
        target = self.path(*parts)
        folder, _, name = target.rpartition("/")
        whole = system.type_name in _OBJECT_STORES
        partial = target if whole else f"{folder}/{_PARTIAL}{uuid.uuid4().hex}-{name}"
        with _about(self, parts, "write"):
            if not whole:
                system.create_dir(folder, recursive=True)
            try:
                with system.open_output_stream(partial) as stream:
                    yield stream
                if system.type_name in _KEEPS_TARGET:
                    _delete(system, target)
                if not whole:
                    system.move(partial, target)
            except BaseException:
                with suppress(OSError):
                    _delete(system, partial)
                raise

    def open_input(self, *parts: str) -> Any:
        """Open a file for reading at any place of it.

        Returns
        -------
        pyarrow.NativeFile
            Stream of the file.

        Raises
        ------
        StoreError
            It is not there, or cannot be read.
        """
        system, _ = _opened(self.uri)
        with _about(self, parts, "read"):
            return system.open_input_file(self.path(*parts))

    def exists(self, *parts: str) -> bool:
        """Return whether there is a file or a folder."""
        system, _ = _opened(self.uri)
        with _about(self, parts, "read"):
            return bool(system.get_file_info(self.path(*parts)).type != fs.FileType.NotFound)

    def list(self, *parts: str) -> builtins.list[str]:
        """Return the sorted names of the entries directly below a folder; none if there is no such folder.

        What is still being written is not there yet.
        """
        system, _ = _opened(self.uri)
        with _about(self, parts, "read"):
            entries = system.get_file_info(fs.FileSelector(self.path(*parts), allow_not_found=True))
        return sorted(info.base_name for info in entries if not info.base_name.startswith(_PARTIAL))

    def usage(self, *parts: str, suffix: str = "") -> int:
        """Count the bytes of the files below a folder; 0 where there is no folder.

        Parameters
        ----------
        *parts : str
            Path of the folder.
        suffix : str
            Ending of the files' names. Default: all files, but not those that are still being written.

        Raises
        ------
        StoreError
            The store cannot be read.
        """
        system, _ = _opened(self.uri)
        with _about(self, parts, "read"):
            entries = system.get_file_info(fs.FileSelector(self.path(*parts), allow_not_found=True, recursive=True))
        return sum(
            info.size
            for info in entries
            if info.type == fs.FileType.File
            and info.base_name.endswith(suffix)
            and not info.base_name.startswith(_PARTIAL)
        )

    def delete(self, *parts: str) -> None:
        """Delete a file, or a folder with all that is in it; what is not there is left so.

        Raises
        ------
        StoreError
            It cannot be deleted, or no part is given: that would be the whole store.
        """
        if not parts:
            raise StoreError(f"a store does not delete itself; name a file or folder in {self.uri}")
        system, _ = _opened(self.uri)
        with _about(self, parts, "delete"):
            _delete(system, self.path(*parts))

    def sweep(self, *parts: str, unchanged_s: float = 0.0) -> None:
        """Delete partial files below a folder, which writers left that were killed; none where there is no folder.

        Parameters
        ----------
        *parts : str
            Path of the folder. Later writes into it fail, unless it is younger than ``unchanged_s``.
        unchanged_s : float
            Seconds since the last write, by the store's own clock. Default 0.

        Raises
        ------
        StoreError
            The store cannot be read or written.
        """
        system, _ = _opened(self.uri)
        if system.type_name in _OBJECT_STORES:
            return
        with _about(self, parts, "read"):
            entries = system.get_file_info(fs.FileSelector(self.path(*parts), allow_not_found=True, recursive=True))
        partial = [info for info in entries if info.base_name.startswith(_PARTIAL)]
        if not partial:
            return
        if unchanged_s:
            probe = f"probe-{uuid.uuid4().hex}"
            self.write(b"cerebro", probe)
            with _about(self, parts, "read"):
                now = system.get_file_info(self.path(probe)).mtime_ns
            self.delete(probe)
            partial = [info for info in partial if now - info.mtime_ns >= unchanged_s * 1e9]
        # A full disk takes no probe, and gets room by this.
        with _about(self, parts, "delete"):
            for info in partial:
                _delete(system, info.path)

    def check_writable(self) -> None:
        """Write a small file and delete it again.

        Raises
        ------
        StoreError
            That does not work; the message says what would help.
        """
        name = f"probe-{uuid.uuid4().hex}"
        self.write(b"cerebro", name)
        self.delete(name)


@functools.cache
def _opened(uri: str) -> tuple[fs.FileSystem, str]:
    scheme = uri.partition(":")[0]
    if scheme == "file":
        address = urlsplit(uri)
        if address.netloc not in ("", "localhost"):
            raise StoreError(f"a file URI names no host; write file:///{address.netloc}{address.path} instead of {uri}")
        return fs.LocalFileSystem(), unquote(address.path).rstrip("/")
    try:
        system, root = fs.FileSystem.from_uri(uri)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise StoreError(
            f"store must be a local path or a URI of {', '.join(_SCHEMES)}, got {uri!r}{nearest(scheme, _SCHEMES)}"
        ) from error
    except OSError as error:
        hint = "; HADOOP_HOME, JAVA_HOME and CLASSPATH have to lead to Hadoop's libhdfs" if scheme == "hdfs" else ""
        raise StoreError(f"the store {uri!r} cannot be opened: {error}{hint}") from error
    return system, root.rstrip("/")


def _segments(parts: tuple[str, ...]) -> list[str]:
    segments = [segment for part in parts for segment in part.split("/")]
    for segment in segments:
        if segment in ("", ".", ".."):
            raise StoreError(f"{'/'.join(parts)!r} is no path within a store: it has the part {segment!r}")
    return segments


def _delete(system: fs.FileSystem, path: str) -> None:
    kind = system.get_file_info(path).type
    with suppress(FileNotFoundError):  # another process was faster
        if kind == fs.FileType.Directory:
            system.delete_dir(path)
        elif kind != fs.FileType.NotFound:
            system.delete_file(path)


@contextmanager
def _about(store: Store, parts: tuple[str, ...], action: str) -> Iterator[None]:
    """Name the place in errors of the file system, with a remedy."""
    place = "/".join((store.uri, *parts))
    try:
        yield
    except CerebroError:
        raise
    except FileNotFoundError as error:
        raise StoreError(f"{place}: nothing is there to {action}") from error
    except OSError as error:
        if error.errno in _FULL:
            raise StoreFullError(
                f"{place}: the disk is full: free some space, or name a store on a larger one"
            ) from error
        if error.errno in _READ_ONLY:
            why = f"no permission to {action}: the folder is read-only for this user; name another store"
        elif error.errno in (errno.ENOTDIR, errno.EEXIST):
            why = "a file lies where a folder has to be: name another store"
        else:
            why = f"cannot {action}: {error}"
        raise StoreError(f"{place}: {why}") from error
