"""Dispatch policies: the requests of the next batch, and those to drop (section 3.5.1).

Pure functions of a queue, which is the ascending deadlines of its requests; backends and the simulator call the same
functions.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

__all__ = ["POLICIES", "Dispatch", "Policy", "deferred", "earliest_first", "maximal_window", "sliding_window"]

# Milliseconds by which rounding may shorten a deadline.
_ROUNDING = 1e-6


class Dispatch(NamedTuple):
    """Decision of a dispatch policy.

    ``drop`` requests at the head of the queue and run the ``take`` behind them, none with 0. ``wait_until_ms`` is when
    to ask again if no request arrives before; only a policy that waits sets it.
    """

    drop: int
    take: int
    wait_until_ms: float | None = None


# (deadlines, now, latencies by batch, planned batch) -> Dispatch
Policy = Callable[[Sequence[float], float, Sequence[float], int], Dispatch]


def earliest_first(deadlines_ms: Sequence[float], now_ms: float, latencies_ms: Sequence[float], batch: int) -> Dispatch:
    """Serve the earliest request that can be in time, with as many others as that allows (Clipper's policy).

    ``deadlines_ms`` are ascending, ``latencies_ms`` never fall by batch size, from 0 on. The policy does not use
    ``batch``.

    Examples
    --------
    A batch of 3 would make the first request late:

    >>> earliest_first([5.0, 9.0, 9.5], 0.0, [0, 3, 5, 7], 3)
    Dispatch(drop=0, take=2, wait_until_ms=None)
    """
    del batch
    drop = _in_time(deadlines_ms, now_ms, latencies_ms)
    waiting = len(deadlines_ms) - drop
    if not waiting:
        return Dispatch(drop, 0)
    return Dispatch(drop, min(waiting, _largest(deadlines_ms[drop], now_ms, latencies_ms)))


def sliding_window(deadlines_ms: Sequence[float], now_ms: float, latencies_ms: Sequence[float], batch: int) -> Dispatch:
    """Drop the earliest requests until the planned batch is in time for the next one (Nexus's policy).

    With fewer requests than ``batch`` the window has all of them; see :func:`earliest_first` for the others.

    Examples
    --------
    >>> sliding_window([5.0, 9.0, 9.5, 9.8], 0.0, [0, 3, 5, 7], 3)
    Dispatch(drop=1, take=3, wait_until_ms=None)
    """
    count = len(deadlines_ms)
    full = min(batch, len(latencies_ms) - 1)
    if count >= full:
        drop = bisect_left(deadlines_ms, now_ms + latencies_ms[full] - _ROUNDING, 0, count - full + 1)
        if drop <= count - full:
            return Dispatch(drop, full)
    # Windows that reach the end: later ones begin with a later deadline and are smaller.
    low, high = max(0, count - full + 1), count
    while low < high:
        middle = (low + high) // 2
        if now_ms + latencies_ms[count - middle] - _ROUNDING <= deadlines_ms[middle]:
            high = middle
        else:
            low = middle + 1
    return Dispatch(low, count - low)


def maximal_window(deadlines_ms: Sequence[float], now_ms: float, latencies_ms: Sequence[float], batch: int) -> Dispatch:
    """Run the largest batch that is in time for all its requests, and drop all before it.

    Take the earliest of equally large windows. ``batch`` is not used; see :func:`earliest_first` for the others.

    Examples
    --------
    >>> maximal_window([5.0, 9.0, 9.5, 9.8], 0.0, [0, 3, 5, 7], 2)
    Dispatch(drop=1, take=3, wait_until_ms=None)
    """
    del batch
    count = len(deadlines_ms)
    start = _in_time(deadlines_ms, now_ms, latencies_ms)
    if start == count:
        return Dispatch(count, 0)
    # Later windows may be larger, until what is left is smaller.
    low, high = start, count - 1
    while low < high:
        middle = (low + high) // 2
        if _largest(deadlines_ms[middle], now_ms, latencies_ms) >= count - middle:
            high = middle
        else:
            low = middle + 1
    take = min(count - low, _largest(deadlines_ms[low], now_ms, latencies_ms))
    if low > start:
        take = max(take, _largest(deadlines_ms[low - 1], now_ms, latencies_ms))
    drop = bisect_left(deadlines_ms, now_ms + latencies_ms[take] - _ROUNDING)
    return Dispatch(drop, take)


def deferred(deadlines_ms: Sequence[float], now_ms: float, latencies_ms: Sequence[float], batch: int) -> Dispatch:
    """Wait for a fuller batch while one more request would still be in time, then apply the sliding window.

    For backends of one session: it waits until the last moment, and does not know batches of other sessions.

    Examples
    --------
    >>> deferred([20.0, 25.0], 0.0, [0, 3, 5, 7, 9], 4)
    Dispatch(drop=0, take=0, wait_until_ms=13.0)
    >>> deferred([20.0, 25.0], 13.0, [0, 3, 5, 7, 9], 4)
    Dispatch(drop=0, take=2, wait_until_ms=None)
    """
    drop, take, _ = sliding_window(deadlines_ms, now_ms, latencies_ms, batch)
    if 0 < take < min(batch, len(latencies_ms) - 1):
        latest = deadlines_ms[drop] - latencies_ms[take + 1]
        if latest > now_ms:
            return Dispatch(drop, 0, latest)
    return Dispatch(drop, take)


POLICIES: Mapping[str, Policy] = {
    "sliding": sliding_window,
    "earliest": earliest_first,
    "maximal": maximal_window,
    "deferred": deferred,
}


def _in_time(deadlines_ms: Sequence[float], now_ms: float, latencies_ms: Sequence[float]) -> int:
    """Count the requests at the head that even a batch of 1 answers too late."""
    return bisect_left(deadlines_ms, now_ms + latencies_ms[1] - _ROUNDING)


def _largest(deadline_ms: float, now_ms: float, latencies_ms: Sequence[float]) -> int:
    """Return the largest batch that ends before a deadline."""
    return bisect_right(latencies_ms, deadline_ms - now_ms + _ROUNDING) - 1
