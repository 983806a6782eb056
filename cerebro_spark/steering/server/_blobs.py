"""Uploaded files, each named by the hash of its content, next to the database."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from udfs.web import ApiError

if TYPE_CHECKING:
    from sqlalchemy import Engine

__all__ = ["Blobs"]

_DIGEST = re.compile(r"[0-9a-f]{64}")
_MOST_BYTES = 2 << 30


class Blobs:
    """Folder of uploaded files. The least recently used ones make room for new ones.

    Parameters
    ----------
    engine : sqlalchemy.Engine
        Engine of :func:`open_database`: the folder is ``blobs`` beside its file.
    most_bytes : int, optional
        Size of all files together. Default 2 GiB.
    """

    def __init__(self, engine: Engine, most_bytes: int = _MOST_BYTES) -> None:
        self._folder = Path(str(engine.url.database)).with_name("blobs")
        self._most_bytes = most_bytes

    def store(self, content: bytes) -> str:
        """Write a file unless it is there, and return the SHA-256 of its content."""
        digest = hashlib.sha256(content).hexdigest()
        path = self._folder / digest
        self._folder.mkdir(mode=0o700, exist_ok=True)
        if path.exists():
            os.utime(path)
            return digest
        self._make_room(len(content))
        draft = self._folder / f"draft-{secrets.token_hex(8)}"
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        return digest

    def read(self, digest: str) -> bytes:
        """Return the content of a file.

        Raises
        ------
        ApiError
            Status 404 for an unknown one.
        """
        # The check also keeps paths such as "../server.sqlite" out.
        path = self._folder / digest if _DIGEST.fullmatch(digest) else None
        if path is None or not path.exists():
            raise ApiError(404, "unknown_blob", f"sha256 must be that of an uploaded file, got {digest[:100]!r}.")
        os.utime(path)
        return path.read_bytes()

    def _make_room(self, size: int) -> None:
        files = sorted((each.stat().st_mtime, each.stat().st_size, each) for each in self._folder.iterdir())
        total = size + sum(bytes_ for _, bytes_, _ in files)
        for _, bytes_, path in files:
            if total <= self._most_bytes:
                return
            path.unlink(missing_ok=True)
            total -= bytes_
