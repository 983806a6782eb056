"""Answers of models in a store, by the content of rows."""

from __future__ import annotations

import hashlib
import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from udfs.store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["StoredAnswers", "open_answers", "row_keys"]

_FOLDER = "answers"
_KEY_BYTES = 16
_SUFFIX = ".arrow"


class StoredAnswers:
    """Class scores of one model, in files of a store; each file is written once and never changed.

    Several tasks and queries may write at a time: equal rows have equal scores, so a repeated file does no harm.

    Parameters
    ----------
    store : Store
        Store that all workers reach.
    digest : str
        Identity of the model.
    """

    def __init__(self, store: Store, digest: str) -> None:
        self._store, self._digest = store, digest
        self._files: set[str] = set()
        self._scores: dict[bytes, NDArray[np.float64]] = {}

    def refresh(self) -> StoredAnswers:
        """Read the files that were written since the last call."""
        names = [name for name in self._store.list(_FOLDER, self._digest) if name.endswith(_SUFFIX)]
        for name in names:
            if name not in self._files:
                with self._store.open_input(_FOLDER, self._digest, name) as file:
                    table = pa.ipc.open_file(file).read_all()
                self._keep(table.column("key").to_pylist(), table.column("scores").to_pylist())
                self._files.add(name)
        return self

    def find(self, batch: pa.RecordBatch) -> tuple[dict[int, NDArray[np.float64]], list[bytes]]:
        """Return the scores of the rows that are stored, by place, and the keys of all rows."""
        keys = row_keys(batch)
        return {row: self._scores[key] for row, key in enumerate(keys) if key in self._scores}, keys

    def add(self, keys: Sequence[bytes], scores: NDArray[np.float64]) -> None:
        """Store the scores of some rows; rows without an answer are computed again next time.

        Raises
        ------
        udfs.store.StoreError
            The store cannot be written.
        """
        good = [(key, row) for key, row in zip(keys, scores, strict=True) if not np.isnan(row).any()]
        if not good:
            return
        table = pa.table(
            {
                "key": pa.array([key for key, _ in good], pa.binary(_KEY_BYTES)),
                "scores": pa.array([row.tolist() for _, row in good], pa.list_(pa.float64())),
            }
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        name = hashlib.blake2b(b"".join(sorted(key for key, _ in good)), digest_size=_KEY_BYTES).hexdigest() + _SUFFIX
        self._store.write(sink.getvalue(), _FOLDER, self._digest, name)
        self._keep([key for key, _ in good], [row for _, row in good])
        self._files.add(name)

    def _keep(self, keys: Sequence[bytes], scores: Sequence[Any]) -> None:
        self._scores |= {key: np.asarray(row, np.float64) for key, row in zip(keys, scores, strict=True)}


def row_keys(batch: pa.RecordBatch) -> list[bytes]:
    """Return a hash of the content of each row: bytes of a file, a text, numbers.

    A path is hashed as a text: a file that changes under its path keeps its answer.

    Examples
    --------
    >>> first, other, same = row_keys(pa.RecordBatch.from_pydict({"x": [1.0, 2.0, 1.0]}))
    >>> first == same, first == other
    (True, False)
    """
    columns = [column.to_pylist() for column in batch.columns]
    keys = []
    for row in zip(*columns, strict=True):
        digest = hashlib.blake2b(digest_size=_KEY_BYTES)
        for value in row:
            _update(digest, value)
        keys.append(digest.digest())
    return keys


def _update(digest: Any, value: Any) -> None:
    """Hash a value with its type and length, so that no two rows have the same bytes."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        digest.update(b"l" + struct.pack("<q", len(value)))
        if all(isinstance(item, float) for item in value):
            digest.update(struct.pack(f"<{len(value)}d", *value))
            return
        for item in value:
            _update(digest, item)
        return
    kind = type(value).__name__.encode()
    content = value if isinstance(value, bytes) else struct.pack("<d", value) if isinstance(value, float) else None
    content = str(value).encode() if content is None else content
    digest.update(kind + struct.pack("<q", len(content)) + content)


@lru_cache(maxsize=8)
def _of_process(uri: str, digest: str) -> StoredAnswers:
    return StoredAnswers(Store.from_uri(uri), digest)


def open_answers(uri: str, digest: str) -> StoredAnswers:
    """Open the stored answers of a model, with all that is stored now."""
    return _of_process(uri, digest).refresh()
