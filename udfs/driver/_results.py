"""Folder in which a command leaves its files: on this machine, or a URI that driver and workers write to."""

from __future__ import annotations

import re
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyarrow.fs import FileSystem, LocalFileSystem, copy_files

from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

__all__ = ["check_place", "check_spark_writes", "is_uri", "local_path", "results_at"]

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_PROBE = "cerebro_spark_probe"


def is_uri(place: str) -> bool:
    """Return whether a place is not a path of this machine.

    Examples
    --------
    >>> is_uri("s3://bucket/out"), is_uri("file:///out"), is_uri("C:/out")
    (True, False, False)
    """
    return bool(_URI.match(place)) and not place.startswith("file:")


def local_path(place: str) -> Path:
    """Read a path, or a URI of ``file:``.

    Examples
    --------
    >>> str(local_path("file:///data/out"))
    '/data/out'
    """
    return Path("/" + place.removeprefix("file:").lstrip("/")) if place.startswith("file:") else Path(place)


def check_place(place: str, option: str = "--out") -> None:
    """See that a folder or a URI can be written; nothing is left there.

    Raises
    ------
    InvalidArgumentError
        A file is in the way, this process may not write there, or Arrow knows no such file system.
    """
    if not is_uri(place):
        folder = local_path(place)
        if folder.exists() and not folder.is_dir():
            raise InvalidArgumentError(f"{option} {place!r} is a file: name a folder")
        there = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
        try:
            with tempfile.TemporaryFile(dir=there):
                pass
        except OSError as error:
            raise InvalidArgumentError(f"{option} {place}: {error.strerror or error}; name another folder") from None
        return
    try:
        system, inner = FileSystem.from_uri(place)
        system.create_dir(inner, recursive=True)
        probe = f"{inner.rstrip('/')}/{_PROBE}"
        with system.open_output_stream(probe) as stream:
            stream.write(b"")
        system.delete_file(probe)
    except (OSError, ValueError, NotImplementedError) as error:
        raise InvalidArgumentError(
            f"{option} {place!r} cannot be written: {error}; name another URI, or a folder"
        ) from None


def check_spark_writes(spark: SparkSession, place: str, option: str = "--out") -> None:
    """See that Spark writes to a URI too, which it reaches through a file system of its own; a path is not tried.

    Raises
    ------
    InvalidArgumentError
        It does not.
    """
    if not is_uri(place):
        return
    probe = f"{place.rstrip('/')}/{_PROBE}"
    try:
        spark.range(1).write.mode("overwrite").parquet(probe)
    except Exception as error:
        raise InvalidArgumentError(
            f"{option} {place!r}: this process can write there, and Spark cannot ({str(error).splitlines()[0]}): give "
            "it the file system (spark.jars.packages), or name another place"
        ) from error
    system, inner = FileSystem.from_uri(probe)
    system.delete_dir(inner)


@contextmanager
def results_at(place: str) -> Iterator[Path]:
    """Yield a folder of this machine; of a URI one whose files are copied there when the block ends well."""
    if not is_uri(place):
        folder = local_path(place)
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="cerebro-spark-") as name:
        yield Path(name)
        system, inner = FileSystem.from_uri(place)
        copy_files(name, inner, source_filesystem=LocalFileSystem(), destination_filesystem=system)
