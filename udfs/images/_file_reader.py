"""Open a file in the file system that its path names."""

from __future__ import annotations

import contextlib
import errno
import re
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast
from urllib.parse import quote, unquote

import pyarrow as pa
from pyarrow import fs

from udfs.images._errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["open_file", "read"]

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://", re.DOTALL)
_HADOOP_ONLY = {"s3a": "s3", "s3n": "s3"}
_URI_CHARACTERS = ":/?#[]@!$&'()*+,;=%~"


def open_file(path: str) -> BinaryIO:
    """Open a local path, a ``file:`` URI in any of its spellings, or a URI that `pyarrow.fs` knows.

    Spark's ``path`` column of ``binaryFile`` is not percent-encoded, ``_metadata.file_path`` is: a ``file:`` URI is
    tried literally first and percent-decoded second.

    Parameters
    ----------
    path : str
        Path or URI.

    Returns
    -------
    file
        Binary file, to be closed by the caller; an ``io.BufferedReader`` for a local file.

    Raises
    ------
    ImageError
        There is no such file, it is a directory, permission is missing, or no file system is known for the URI.
    OSError
        Another error, which a new attempt of the task may not meet (a connection, an exhausted descriptor table).
    """
    if path.startswith("file:"):
        rest = path.removeprefix("file:")
        if rest.startswith("//"):
            rest = rest[2:].removeprefix("localhost")
        literal, decoded = _local(rest), unquote(rest)
        with _about(path):
            encoded = decoded != rest and not literal.exists()
            return (_local(decoded) if encoded else literal).open("rb")
    scheme = _URI.match(path)
    if scheme is None:
        with _about(path):
            return _local(path).open("rb")
    return _open_uri(_HADOOP_ONLY.get(scheme[1], scheme[1]) + path[scheme.end(1) :], path)


def read(path: str) -> bytes:
    """Read all bytes of a file that :func:`open_file` opens."""
    with open_file(path) as file, _about(path):
        return file.read()


def _local(path: str) -> Path:
    if not path or "\0" in path:
        raise ImageError("no such file", repr(path))
    return Path(path)


def _open_uri(uri: str, shown: str) -> BinaryIO:
    # Spark leaves blanks as they are, which Arrow's own URI parser refuses; fsspec's paths are never decoded.
    quoted = uri if uri.startswith("fsspec+") else quote(uri, safe=_URI_CHARACTERS)
    try:
        system, inner = fs.FileSystem.from_uri(quoted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ImageError("no file system for the URI", shown) from error
    with _about(shown):
        return cast("BinaryIO", system.open_input_file(inner))


@contextlib.contextmanager
def _about(path: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, UnicodeEncodeError) as error:
        raise ImageError("no such file", path) from error
    except PermissionError as error:
        raise ImageError("no permission to read the file", path) from error
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            raise ImageError("no such file", path) from error
        raise
