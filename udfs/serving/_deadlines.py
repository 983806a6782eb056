"""Deadlines of what waits: one thread ends each thing that is not settled by its own."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Deadlines"]

_T = TypeVar("_T")


class Deadlines(Generic[_T]):
    """Hears of things with their deadlines, and says of each that is not settled in time. Any thread may call it.

    Parameters
    ----------
    expired : callable
        Called with each thing whose deadline went by, in this object's own thread.
    settled : callable
        Whether a thing is over, so that nobody needs its deadline; may not wait for a lock.

    Examples
    --------
    >>> import queue
    >>> late = queue.Queue()
    >>> deadlines = Deadlines(late.put, lambda thing: thing == "answered")
    >>> for thing in ("answered", "forgotten"):
    ...     deadlines.add(time.monotonic() + 0.01, thing)
    >>> late.get(timeout=5)
    'forgotten'
    >>> deadlines.stop()
    """

    def __init__(self, expired: Callable[[_T], None], settled: Callable[[_T], bool]) -> None:
        self._expired, self._settled = expired, settled
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._waiting: list[tuple[float, int, _T]] = []
        self._stopped = False
        threading.Thread(target=self._run, name="deadlines", daemon=True).start()

    def add(self, deadline: float, thing: _T) -> None:
        """Hear of a thing, and its deadline in seconds of this process's monotonic clock."""
        entry = (deadline, next(self._numbers), thing)
        with self._changed:
            heapq.heappush(self._waiting, entry)
            if self._waiting[0] is entry:
                self._changed.notify()

    def stop(self) -> None:
        """Say nothing more."""
        with self._changed:
            self._stopped = True
            self._waiting.clear()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._waiting and self._settled(self._waiting[0][2]):
                    heapq.heappop(self._waiting)
                if self._stopped:
                    return
                now = time.monotonic()
                if not self._waiting or self._waiting[0][0] > now:
                    self._changed.wait(self._waiting[0][0] - now if self._waiting else None)
                    continue
                thing = heapq.heappop(self._waiting)[2]
            self._expired(thing)
