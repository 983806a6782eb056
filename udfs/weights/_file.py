"""Find files of weights on this machine: in place, sent with the job, or fetched once per node."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from pyarrow.fs import FileSystem, FileType

from optimizer.errors import CerebroError
from udfs.node import NodeCacheError, node_folder, written_once

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo

__all__ = ["FOLDER_WEIGHTS", "SHIPPED", "WeightsError", "file_version", "local_file", "redacted"]

SHIPPED = "sparkfile:"
"""Prefix of the name of a file that the driver has sent to the workers' nodes."""

FOLDER_WEIGHTS = "model.safetensors"
"""Name of the weights in a folder that ``transformers`` wrote."""


class WeightsError(CerebroError, ValueError):
    """Weights that cannot be read, or that do not fit the model; the message names the file, the keys and the cause."""


def local_file(uri: str | os.PathLike[str]) -> Path:
    """Find a file of weights on this machine; a remote one is copied first.

    For the URIs see :func:`udfs.weights.read_state_dict`; the name of the local file does not tell the format. Raise
    WeightsError if there is no such file, or it cannot be copied.
    """
    text, shown = os.fspath(uri), redacted(uri)
    if text.startswith(SHIPPED):
        return _shipped(text.removeprefix(SHIPPED), shown)
    if "://" not in text:
        path = Path(text).expanduser()
        if not path.is_file():
            raise WeightsError(f"{shown} is {'not a file' if path.exists() else 'not there'}")
        return path
    filesystem, inner, info = _remote(text, shown)
    if filesystem.type_name == "local":
        return Path(inner)
    key = hashlib.sha256(f"{text}\n{info.size}\n{info.mtime_ns}".encode()).hexdigest()
    try:
        cached = node_folder("weights") / key
        if not cached.exists():
            # The executors of a node race for it.
            with (
                written_once(cached) as partial,
                partial.open("wb") as target,
                filesystem.open_input_stream(inner, compression=None) as source,
            ):
                shutil.copyfileobj(source, target, 1 << 20)
    except NodeCacheError as error:
        raise WeightsError(str(error)) from error
    except OSError as error:
        raise WeightsError(f"{shown} cannot be copied to this machine: {error}") from error
    return cached


def file_version(uri: str | os.PathLike[str]) -> str:
    """Identify a file's content by its size and the time of its last modification.

    The version is empty for a path that does not exist; a URI without a file is a WeightsError.
    """
    text = os.fspath(uri)
    if "://" in text:
        info = _remote(text, redacted(uri))[2]
        return f"{info.size}-{info.mtime_ns}"
    path = Path(text).expanduser()
    if not path.is_file():
        return ""
    status = path.stat()
    return f"{status.st_size}-{status.st_mtime_ns}"


def redacted(uri: str | os.PathLike[str]) -> str:
    """Cut user, password and options out of a URI: an error message must not spread them.

    Examples
    --------
    >>> redacted("s3://key:secret@bucket/w.pt?region=x")
    's3://bucket/w.pt'
    """
    text = os.fspath(uri)
    return re.sub(r"://[^/@]*@", "://", text).split("?")[0] if "://" in text else text


def _remote(uri: str, shown: str) -> tuple[FileSystem, str, FileInfo]:
    try:
        filesystem, inner = FileSystem.from_uri(uri)
        info = filesystem.get_file_info(inner)
    except (OSError, ValueError, NotImplementedError) as error:
        raise WeightsError(f"{shown} cannot be opened: {str(error).replace(uri, shown)}") from error
    if info.type != FileType.File:
        raise WeightsError(f"{shown} is {'not there' if info.type == FileType.NotFound else 'not a file'}")
    return filesystem, inner, info


def _shipped(name: str, shown: str) -> Path:
    from pyspark import SparkFiles  # (only where there is a Spark worker)

    path = Path(SparkFiles.get(name))
    if not path.is_file():
        raise WeightsError(
            f"{shown} is not among the files of this job: it is read within a Spark job whose session has it, by "
            "addArtifacts(path, file=True)"
        )
    return path
