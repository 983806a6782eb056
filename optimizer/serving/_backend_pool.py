"""Unused backends by kind."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from optimizer.errors import InvalidArgumentError
from optimizer.serving._session import Backend

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["Kind", "Pool"]

# Speed, and bytes for models.
Kind = tuple[float, float]


class Pool:
    """Unused backends, the fastest first, or as many equal ones as requested.

    Without ``backends``, as many of speed 1 and ``memory_bytes`` as needed. ``used`` names are in use.

    Raises
    ------
    InvalidArgumentError
        Two backends have the same name, or ``memory_bytes`` is set with ``backends``.
    """

    def __init__(
        self, backends: Sequence[Backend] | None, memory_bytes: int | None = None, used: Collection[str] = ()
    ) -> None:
        if backends is not None:
            if memory_bytes is not None:
                raise InvalidArgumentError(
                    f"memory_bytes must be None with backends, got {memory_bytes}. Set memory_bytes of each backend."
                )
            names = Counter(backend.name for backend in backends)
            twice = [name for name, count in names.items() if count > 1]
            if twice:
                raise InvalidArgumentError(f"backends must have unique names, got {twice[0]!r} twice.")
        self._used = set(used)
        self._alike = None if backends is not None else Backend("backend-0", memory_bytes=memory_bytes)
        free = [backend for backend in backends or () if backend.name not in self._used]
        self._free = sorted(free, key=lambda backend: (-backend.speed, -backend.room))
        kinds = [_kind(backend) for backend in self._free]
        self.kinds: tuple[Kind, ...] = tuple(dict.fromkeys(kinds)) if self._alike is None else (_kind(self._alike),)
        self.total: float = math.inf if backends is None else len(backends)

    def left(self, kind: Kind) -> float:
        """Return the number of unused backends of a kind."""
        return math.inf if self._alike else sum(_kind(backend) == kind for backend in self._free)

    def take(self, kind: Kind) -> Backend:
        """Take an unused backend of a kind."""
        if self._alike:
            number = 0
            while f"backend-{number}" in self._used:
                number += 1
            backend = Backend(f"backend-{number}", self._alike.speed, self._alike.memory_bytes)
        else:
            backend = next(candidate for candidate in self._free if _kind(candidate) == kind)
            self._free.remove(backend)
        self._used.add(backend.name)
        return backend


def _kind(backend: Backend) -> Kind:
    return backend.speed, backend.room
