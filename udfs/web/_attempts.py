"""Limit of failed sign-ins per minute."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Attempts"]

_WINDOW_S = 60.0
_KEYS = 10_000


class Attempts:
    """Failed attempts of the last minute, by key.

    Parameters
    ----------
    limit : int
        Attempts per key and minute.
    clock : callable, optional
        Returns the time in seconds.

    Examples
    --------
    >>> attempts = Attempts(limit=2)
    >>> [attempts.begin(["ada"]) for _ in range(3)]
    [True, True, False]
    """

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit, self._clock = limit, clock
        self._times: dict[str, deque[float]] = {}
        self._lock = threading.Lock()

    def begin(self, keys: Iterable[str]) -> bool:
        """Count an attempt for each key, before it is checked; return False if a key has reached the limit.

        Attempts at the same time are counted before their results are known, so that they cannot exceed the limit.
        """
        now = self._clock()
        with self._lock:
            if len(self._times) > _KEYS:
                self._times = {
                    key: times for key, times in self._times.items() if times and times[-1] > now - _WINDOW_S
                }
            counts = [self._times.setdefault(key, deque(maxlen=self._limit)) for key in keys]
            if any(len(times) == self._limit and times[0] > now - _WINDOW_S for times in counts):
                return False
            for times in counts:
                times.append(now)
            return True

    def withdraw(self, keys: Iterable[str]) -> None:
        """Discount an attempt that succeeded; failures before it still count."""
        with self._lock:
            for key in keys:
                if self._times.get(key):
                    self._times[key].pop()
