"""The states that a worker holds for the one that trains next."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict

__all__ = ["States", "digest_of"]


def digest_of(state: bytes) -> str:
    """Tells states apart, and a damaged one from a whole one."""
    return hashlib.blake2b(state, digest_size=16).hexdigest()


class States:
    """Of each configuration the last state that was trained here, until it is older than a later one elsewhere.

    Parameters
    ----------
    limit_bytes : int
        Beyond which the oldest that are in the store go.

    Examples
    --------
    >>> states = States(1 << 20)
    >>> states.put("c0", 1, b"weights")
    >>> states.get("c0/1")
    b'weights'
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._held: OrderedDict[str, tuple[int, bytes, bool]] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, config: str, version: int, state: bytes) -> None:
        """Hold a state instead of an older one."""
        with self._lock:
            self._held[config] = (version, state, False)
            self._held.move_to_end(config)

    def kept(self, config: str, version: int) -> list[str]:
        """Note that the store has a state, and say which had to go for want of room."""
        with self._lock:
            found = self._held.get(config)
            if found is not None and found[0] == version:
                self._held[config] = (*found[:2], True)
            dropped = []
            total = sum(len(state) for _, state, _ in self._held.values())
            for name, (_, state, durable) in list(self._held.items()):
                if total <= self._limit:
                    break
                if durable:
                    del self._held[name]
                    total -= len(state)
                    dropped.append(name)
            return dropped

    def drop(self, config: str, version: int) -> None:
        """Forget what is no newer than a version."""
        with self._lock:
            found = self._held.get(config)
            if found is not None and found[0] <= version:
                del self._held[config]

    def get(self, name: str) -> bytes | None:
        """A state by ``config/version``."""
        config, _, version = name.rpartition("/")
        with self._lock:
            found = self._held.get(config)
        return found[1] if found is not None and str(found[0]) == version else None
