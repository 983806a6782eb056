"""The cache folder that the processes of a node share."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from optimizer.errors import CerebroError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CACHE_VARIABLE", "NodeCacheError", "node_folder", "written_once"]

CACHE_VARIABLE = "CEREBRO_SPARK_CACHE"
"""Environment variable that names the node's cache folder; a private folder under the temporary one without it."""


_PARTIAL = ".partial-"
_YOUNG_S = 60.0


class NodeCacheError(CerebroError, OSError):
    """The node's cache folder cannot be used; the message says why and how to name another."""


def node_folder(kind: str) -> Path:
    """Return the node's cache folder for one kind of files; create it where it is missing.

    Raises
    ------
    NodeCacheError
        It belongs to another user, or cannot be made.

    Examples
    --------
    >>> node_folder("doctest").name
    'doctest'
    """
    named = os.environ.get(CACHE_VARIABLE)
    root = Path(named) if named else Path(tempfile.gettempdir()) / f"cerebro-{os.getuid()}"
    try:
        root.mkdir(mode=0o777 if named else 0o700, parents=bool(named), exist_ok=True)
        owner = root.lstat().st_uid
        folder = root / kind
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise NodeCacheError(f"{root}: {error}; name another cache folder in {CACHE_VARIABLE}") from error
    # In a shared temporary folder another user may have been there first, to choose our files for us.
    if not named and owner != os.getuid():
        raise NodeCacheError(f"{root} belongs to another user; name a cache folder in {CACHE_VARIABLE}")
    return folder


@contextmanager
def written_once(path: Path) -> Iterator[Path]:
    """Yield a name to write under, renamed to ``path`` when the block ends well: readers never see half a file.

    The processes of a node may race; each writes its own, and the last one stays.

    Examples
    --------
    >>> target = node_folder("doctest") / "answer"
    >>> with written_once(target) as partial:
    ...     _ = partial.write_text("42")
    >>> target.read_text()
    '42'
    """
    _sweep(path.parent)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=_PARTIAL)
    partial = Path(name)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
        os.close(handle)


def _sweep(folder: Path) -> None:
    """Delete the partial files of processes that are gone: their locks are free."""
    for partial in folder.glob(f"{_PARTIAL}*"):
        with suppress(OSError):
            if time.time() - partial.stat().st_mtime < _YOUNG_S:
                continue  # made a moment ago, and not locked yet
            with partial.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                partial.unlink(missing_ok=True)
