"""Numbered documents of a run's journal, as the store has them."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from udfs.documents import document

if TYPE_CHECKING:
    from udfs.store import Store

__all__ = ["STREAMS", "JournalDocuments"]

STREAMS = {"orders": ("orders", "order"), "units": ("events", "part")}
"""Folder and first word of the files of each stream of documents."""

# A server accepts a body of 1 MiB.
_BATCH_BYTES = 512 * 1024
_BATCH_DOCUMENTS = 200

# Characters of an error, at most.
_TRACEBACK = 50_000

_REMEDY = "put a copy of it back"


class JournalDocuments:
    """Documents of a run in its store: what a run does is reported from there, so that nothing is missed."""

    def __init__(self, store: Store, run: str) -> None:
        self._store = store
        self._run = run

    def batch(self, stream: str, number: int) -> list[tuple[int, Any]]:
        """Read the documents from a number on, as many as one message carries, and at least one if it is there."""
        documents: list[tuple[int, Any]] = []
        size = 0
        while len(documents) < _BATCH_DOCUMENTS and (content := self._read(stream, number)) is not None:
            size += len(json.dumps(content))
            if documents and size > _BATCH_BYTES:
                break
            documents.append((number, content))
            number += 1
        return documents

    def count(self, stream: str, number: int) -> int:
        """Count the documents from a number on."""
        count = 0
        while self._store.exists(*self._place(stream, number + count)):
            count += 1
        return count

    def traceback(self, trial_id: str) -> str:
        """Read the end of the error of a configuration; ``""`` without one."""
        place = "runs", self._run, "trials", f"{trial_id}.json"
        if not self._store.exists(*place):
            return ""
        with document(self._store, *place, remedy=_REMEDY) as content:
            return str(content["traceback"])[-_TRACEBACK:]

    @property
    def fingerprint(self) -> str:
        """Digest of the first order, which is another one if the journal of the run began anew; ``""`` without it."""
        first = self._read("orders", 0)
        return "" if first is None else hashlib.sha256(json.dumps(first, sort_keys=True).encode()).hexdigest()

    def _place(self, stream: str, number: int) -> tuple[str, ...]:
        folder, word = STREAMS[stream]
        return "runs", self._run, folder, f"{word}-{number:06d}.json"

    def _read(self, stream: str, number: int) -> Any:
        place = self._place(stream, number)
        if not self._store.exists(*place):
            return None
        with document(self._store, *place, remedy=_REMEDY) as content:
            return content
