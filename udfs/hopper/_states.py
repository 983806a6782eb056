"""Checkpoints that a worker holds in memory for the worker that trains next."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass

__all__ = ["States", "digest_of"]


def digest_of(state: bytes) -> str:
    """Compute the digest that tells checkpoints apart, and a damaged one from an intact one."""
    return hashlib.blake2b(state, digest_size=16).hexdigest()


@dataclass(slots=True)
class _Held:
    version: int
    state: bytes
    durable: bool


class States:
    """The last checkpoint of each trial that was trained here, until another worker has trained it further.

    Parameters
    ----------
    limit_bytes : int
        Above it, the oldest that are in the store are dropped.

    Examples
    --------
    >>> states = States(1 << 20)
    >>> states.put("c0", 1, b"weights")
    >>> states.get("c0/1")
    b'weights'
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._held: OrderedDict[str, _Held] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, trial_id: str, version: int, state: bytes) -> None:
        """Hold a checkpoint in place of the trial's older one."""
        with self._lock:
            self._held[trial_id] = _Held(version, state, durable=False)
            self._held.move_to_end(trial_id)

    def stored(self, trial_id: str, version: int) -> list[str]:
        """Note that the store has a checkpoint.

        Returns
        -------
        list of str
            Trials whose checkpoints were dropped, to stay within the limit.
        """
        with self._lock:
            held = self._held.get(trial_id)
            if held is not None and held.version == version:
                held.durable = True
            dropped = []
            total = sum(len(each.state) for each in self._held.values())
            for name, each in list(self._held.items()):
                if total <= self._limit:
                    break
                if each.durable:
                    del self._held[name]
                    total -= len(each.state)
                    dropped.append(name)
            return dropped

    @property
    def full(self) -> bool:
        """Whether it holds more than the limit: what comes goes to the store, so that the oldest may be dropped."""
        with self._lock:
            return sum(len(each.state) for each in self._held.values()) > self._limit

    def drop(self, trial_id: str, version: int) -> None:
        """Drop a trial's checkpoint, unless it is newer than a version."""
        with self._lock:
            held = self._held.get(trial_id)
            if held is not None and held.version <= version:
                del self._held[trial_id]

    def get(self, name: str) -> bytes | None:
        """Look up a checkpoint by ``trial_id/version``."""
        trial_id, _, version = name.rpartition("/")
        with self._lock:
            held = self._held.get(trial_id)
            return held.state if held is not None and str(held.version) == version else None
