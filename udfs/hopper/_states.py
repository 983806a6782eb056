"""Checkpoints that a worker holds in memory for the worker that trains next."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from udfs.hopper._checkpoints import Record
    from udfs.rpc import Held

__all__ = ["States"]


@dataclass(slots=True)
class _Kept:
    version: int
    state: Held
    durable: bool
    record: Record | None

    @property
    def nbytes(self) -> int:
        return len(self.state.content)


class States:
    """The last checkpoint of each trial that was trained here, until another worker has trained it further.

    Parameters
    ----------
    limit_bytes : int
        Above it, the oldest that are in the store are dropped.

    Examples
    --------
    >>> from udfs.rpc import Held, digest_of
    >>> states = States(1 << 20)
    >>> states.put("c0", 1, Held(b"weights", digest_of(b"weights")))
    >>> states.get("c0/1").content
    b'weights'
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._held: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, trial_id: str, version: int, state: Held, record: Record | None = None) -> None:
        """Keep a checkpoint, with its digest and record, in place of the trial's older one."""
        with self._lock:
            self._held[trial_id] = _Kept(version, state, durable=False, record=record)
            self._held.move_to_end(trial_id)

    def stored(self, trial_id: str, version: int) -> list[str]:
        """Record a checkpoint in the store.

        Returns
        -------
        list of str
            Trials whose checkpoints were dropped, to stay within the limit.
        """
        with self._lock:
            kept = self._held.get(trial_id)
            if kept is not None and kept.version == version:
                kept.durable = True
            dropped = []
            total = sum(each.nbytes for each in self._held.values())
            for name, each in list(self._held.items()):
                if total <= self._limit:
                    break
                if each.durable:
                    del self._held[name]
                    total -= each.nbytes
                    dropped.append(name)
            return dropped

    def unstored(self) -> list[tuple[Record, bytes]]:
        """List the checkpoints that are not in the store, with their records."""
        with self._lock:
            return [
                (kept.record, kept.state.content)
                for kept in self._held.values()
                if not kept.durable and kept.record is not None
            ]

    @property
    def full(self) -> bool:
        """True if the states exceed the limit: new ones go to the store, so that the oldest may be dropped."""
        with self._lock:
            return sum(each.nbytes for each in self._held.values()) > self._limit

    def drop(self, trial_id: str, version: int) -> None:
        """Drop a trial's checkpoint, unless it is newer than a version."""
        with self._lock:
            kept = self._held.get(trial_id)
            if kept is not None and kept.version <= version:
                del self._held[trial_id]

    def get(self, name: str) -> Held | None:
        """Look up a checkpoint by ``trial_id/version``."""
        trial_id, _, version = name.rpartition("/")
        with self._lock:
            kept = self._held.get(trial_id)
            return kept.state if kept is not None and str(kept.version) == version else None
