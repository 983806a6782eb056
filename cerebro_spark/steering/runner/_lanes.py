"""Queues of requests by kind, and the threads that take from them."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from udfs.node import SupervisedThread

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Lanes"]

_Item = TypeVar("_Item")

# Requests that are answered at once, up to so many at a time. All others wait for those of their kind.
_SHORT = ("schema", "plan", "script")
_AT_ONCE = 4


class Lanes(Generic[_Item]):
    """Queues with threads of their own: one for short requests, and one for each other kind, which runs in order.

    Parameters
    ----------
    work : callable
        Called with each item; it raises no error.

    Examples
    --------
    >>> done = queue.SimpleQueue()
    >>> lanes = Lanes(done.put)
    >>> for number in range(3):
    ...     lanes.put("launch", number)
    >>> [done.get(timeout=5) for _ in range(3)]
    [0, 1, 2]
    >>> lanes.close()
    """

    def __init__(self, work: Callable[[_Item], object]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._queues: dict[str, queue.SimpleQueue[_Item | None]] = {}

    def put(self, kind: str, item: _Item) -> None:
        """Append an item to the queue of a kind."""
        lane = "" if kind in _SHORT else kind
        with self._lock:
            if lane not in self._queues:
                self._queues[lane] = queue.SimpleQueue()
                for _ in range(1 if lane else _AT_ONCE):
                    SupervisedThread(lambda: self._run(self._queues[lane]), f"requests {lane}".strip()).start()
            self._queues[lane].put(item)

    def close(self) -> None:
        """End the threads once their queues are empty."""
        with self._lock:
            for lane, items in self._queues.items():
                for _ in range(1 if lane else _AT_ONCE):
                    items.put(None)

    def _run(self, items: queue.SimpleQueue[_Item | None]) -> None:
        while (item := items.get()) is not None:
            self._work(item)
