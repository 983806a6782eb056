"""Backends that refuse all rows of a group: they get none for a while."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Refusals"]

# Seconds without an answer after which a refusal counts as one of all rows, and seconds until the next try.
_WITHOUT_ANSWER_S = 1.0
_PAUSE_S = 1.0


class Refusals:
    """Record of the backends that refuse all rows of a group. Any thread may call every method.

    A backend whose estimate of a batch exceeds the deadline refuses every row. An overloaded one refuses some rows and
    answers others, and is not recorded.

    Examples
    --------
    >>> refusals = Refusals()
    >>> refusals.add("cats", "backend-0")
    True
    >>> refusals.others("cats", ["backend-0", "backend-1"])
    ['backend-1']
    >>> refusals.answered("cats", "backend-0")
    >>> refusals.add("cats", "backend-0")
    False
    >>> refusals.others("cats", ["backend-0", "backend-1"])
    ['backend-0', 'backend-1']
    """

    def __init__(self) -> None:
        self._answered: dict[tuple[str, str], float] = {}
        self._until: dict[tuple[str, str], float] = {}

    def answered(self, group: str, backend: str) -> None:
        """Record an answer of a backend."""
        self._answered[group, backend] = time.monotonic()
        if self._until:
            self._until.pop((group, backend), None)

    def add(self, group: str, backend: str) -> bool:
        """Record a refusal; return whether the backend refuses all rows of the group."""
        now = time.monotonic()
        if now - self._answered.get((group, backend), float("-inf")) < _WITHOUT_ANSWER_S:
            return False
        self._until[group, backend] = now + _PAUSE_S
        return True

    def others(self, group: str, backends: Sequence[str]) -> Sequence[str]:
        """Return the backends that do not refuse all rows of a group; all backends if each does."""
        if not self._until:
            return backends
        now = time.monotonic()
        return [name for name in backends if self._until.get((group, name), now) <= now] or backends
