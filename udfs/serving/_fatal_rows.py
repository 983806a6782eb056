"""Rows that ended the process of a backend, remembered by their content, so that a repetition ends no other."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numpy.typing import NDArray

    from udfs.serving._pending_requests import Pending

__all__ = ["FatalRows", "row_digest"]

_LOST_TWICE = (
    "The backend of {} was lost twice while it had this request, the second time in a batch of its own, so it is not "
    "tried again: {}."
)

# Seconds for which a fatal row is refused; another reason may have ended the process, so it is tried alone then.
_REFUSED_S = 600.0

# Contents remembered for a version of a model.
_MOST_CONTENTS = 256

# Rows that ended without an answer while a backend had them: their number and their bytes.
_MOST_ROWS, _MOST_BYTES = 256, 64 << 20


class FatalRows:
    """Memory of rows by model, version and digest of their content. The class is thread-safe.

    A row is suspected if a backend was lost that had it, and fatal if a second one was lost that ran it alone. Rows
    whose callers stopped waiting are known for a while too, because a batch that hangs or takes all memory ends its
    process after the deadlines of its rows.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Messages and the ends of their validity by digest, for each version of a model; "" for suspected contents.
        self._contents: dict[tuple[str, str], OrderedDict[str, tuple[str, float]]] = {}
        self._left: OrderedDict[int, Pending] = OrderedDict()
        self._left_bytes = 0

    def verdict(self, unit: Pending) -> str | None:
        """Return the error of a fatal row, ``""`` for a suspected one, and ``None`` for others."""
        known = self._contents.get((unit.session, unit.version))
        entry = known.get(_digest_of(unit)) if known else None
        if entry is None:
            return None
        message, until = entry
        return message if time.monotonic() < until else ""

    def suspect(self, unit: Pending) -> None:
        """Remember a row that a lost backend had, unless its end is known."""
        self._remember(unit, "", 0.0)

    def condemn(self, unit: Pending, why: str) -> str:
        """Remember a row that ended a process alone, and return the message of its error."""
        message = _LOST_TWICE.format(unit.session, why)
        self._remember(unit, message, time.monotonic() + _REFUSED_S)
        return message

    def clear(self, unit: Pending) -> None:
        """Forget a row that a backend has run."""
        known = self._contents.get((unit.session, unit.version))
        if unit.suspect and known:
            with self._lock:
                known.pop(_digest_of(unit), None)

    def retain(self, versions: Collection[tuple[str, str]]) -> None:
        """Forget the rows of all models and versions but these."""
        with self._lock:
            self._contents = {version: known for version, known in self._contents.items() if version in versions}

    def leave(self, unit: Pending) -> None:
        """Keep a row that ends without an answer while a backend has it."""
        with self._lock:
            if unit.number not in self._left:
                self._left_bytes += unit.nbytes
            self._left[unit.number] = unit
            while len(self._left) > _MOST_ROWS or self._left_bytes > _MOST_BYTES:
                self._left_bytes -= self._left.popitem(last=False)[1].nbytes

    def answered(self, number: int) -> None:
        """Forget a row that a backend answered after its caller stopped waiting."""
        with self._lock:
            unit = self._left.pop(number, None)
            self._left_bytes -= 0 if unit is None else unit.nbytes
        if unit is not None:
            self.clear(unit)

    def lost(self, link: str) -> list[Pending]:
        """Return the rows of a lost backend whose callers stopped waiting, and keep them no longer."""
        with self._lock:
            units = [unit for unit in self._left.values() if unit.link == link]
            for unit in units:
                self._left_bytes -= self._left.pop(unit.number).nbytes
        return units

    def _remember(self, unit: Pending, message: str, until: float) -> None:
        digest = _digest_of(unit)
        with self._lock:
            known = self._contents.setdefault((unit.session, unit.version), OrderedDict())
            if message or digest not in known:
                known[digest] = message, until
            known.move_to_end(digest)
            if len(known) > _MOST_CONTENTS:
                # Suspects go first: they are many, and each ends at most one more process.
                del known[next((each for each, (why, _) in known.items() if not why), next(iter(known)))]


def row_digest(row: Mapping[str, NDArray[Any]]) -> str:
    """Return a digest of the names, types, shapes and values of a row."""
    digest = hashlib.blake2b(digest_size=16)
    for name, array in sorted(row.items()):
        digest.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _digest_of(unit: Pending) -> str:
    return unit.key or row_digest(unit.inputs)
