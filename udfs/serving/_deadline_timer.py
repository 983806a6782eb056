"""Timer of deadlines: one thread expires the items whose deadline has passed."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from typing import TYPE_CHECKING, Generic, TypeVar

from udfs.node import SupervisedThread

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DeadlineTimer"]

_LOG = logging.getLogger(__name__)

_T = TypeVar("_T")


class DeadlineTimer(Generic[_T]):
    """Timer that calls a function for each item that is not settled by its deadline. The class is thread-safe.

    Parameters
    ----------
    expired : callable
        Called with each item whose deadline has passed, in the timer's thread.
    settled : callable
        Returns whether an item is settled, so that its deadline no longer matters; must not wait for a lock.

    Examples
    --------
    >>> import queue
    >>> late = queue.Queue()
    >>> timer = DeadlineTimer(late.put, lambda item: item == "answered")
    >>> for item in ("answered", "forgotten"):
    ...     timer.watch(time.monotonic() + 0.01, item)
    >>> late.get(timeout=5)
    'forgotten'
    >>> timer.stop()
    """

    def __init__(self, expired: Callable[[_T], None], settled: Callable[[_T], bool]) -> None:
        self._expired, self._settled = expired, settled
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._waiting: list[tuple[float, int, _T]] = []
        self._stopped = False
        SupervisedThread(self._run, "deadlines").start()

    def watch(self, deadline: float, item: _T) -> None:
        """Watch an item; its deadline is in seconds of this process's monotonic clock."""
        entry = (deadline, next(self._numbers), item)
        with self._changed:
            heapq.heappush(self._waiting, entry)
            if self._waiting[0] is entry:
                self._changed.notify()

    def stop(self) -> None:
        """Stop the timer thread."""
        with self._changed:
            self._stopped = True
            self._waiting.clear()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._waiting and self._is_settled(self._waiting[0][2]):
                    heapq.heappop(self._waiting)
                if self._stopped:
                    return
                now = time.monotonic()
                if not self._waiting or self._waiting[0][0] > now:
                    self._changed.wait(self._waiting[0][0] - now if self._waiting else None)
                    continue
                item = heapq.heappop(self._waiting)[2]
            try:
                self._expired(item)
            except Exception:  # noqa: BLE001 - the other deadlines are kept
                _LOG.exception("a request could not be ended at its deadline")

    def _is_settled(self, item: _T) -> bool:
        try:
            return self._settled(item)
        except Exception:  # noqa: BLE001 - as above
            _LOG.exception("the state of a request is unknown, so it ends at its deadline")
            return False
