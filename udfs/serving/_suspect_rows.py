"""Rows that a lost backend had: one of them may be the cause, so each is tried again alone."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from udfs.serving._pending_requests import Pending

__all__ = ["SuspectRows"]


class SuspectRows:
    """Queue of the rows that a lost backend had. The class is thread-safe.

    One row at a time is on trial: a backend runs it in a batch of its own. If that backend is lost too, the row is the
    cause, and the other rows of the backend are not.

    Parameters
    ----------
    waits : callable
        Returns whether the row of a number still has no answer.
    send : callable
        Sends a row to a backend, or ends its request.
    """

    def __init__(self, waits: Callable[[int], bool], send: Callable[[Pending], None]) -> None:
        self._waits, self._send = waits, send
        self._lock = threading.Lock()
        self._queue: deque[Pending] = deque()
        self._trial: Pending | None = None
        self._sending = False

    def add(self, units: Iterable[Pending]) -> None:
        """Queue rows, the earliest first."""
        with self._lock:
            for unit in units:
                unit.suspect = True
                self._queue.append(unit)
        self._send_next()

    def is_on_trial(self, unit: Pending) -> bool:
        """Return whether a row is the one on trial."""
        return unit is self._trial

    def ended(self, unit: Pending) -> None:
        """Send the next row if the one on trial has ended."""
        if unit is self._trial and not self._sending:
            self._send_next()

    def _send_next(self) -> None:
        # A row that ends while it is sent calls `ended`, which leaves the next one to this loop.
        while True:
            with self._lock:
                if self._sending or (self._trial is not None and self._waits(self._trial.number)):
                    return
                self._trial = self._queue.popleft() if self._queue else None
                if self._trial is None:
                    return
                unit, self._sending = self._trial, True
            try:
                if self._waits(unit.number):
                    self._send(unit)
            finally:
                self._sending = False
