"""Policies of dispatch: which waiting requests make the next batch, and which are given up (section 3.5.1).

Pure functions of the queue, that a backend and the simulator both call. A queue is the deadlines of its requests in
ascending order, which is the order of arrival within a session.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

__all__ = ["POLICIES", "Dispatch", "Policy", "deferred", "earliest_first", "maximal_window", "sliding_window"]

# What rounding may take from a deadline, in milliseconds.
_ROUNDING = 1e-6


class Dispatch(NamedTuple):
    """What to do with a queue.

    Parameters
    ----------
    drop : int
        Requests at its head to give up.
    take : int
        Requests behind those that make the batch; 0 to run nothing now.
    wait_until_ms : float or None
        When to ask again if nothing arrives before: only of a policy that waits.
    """

    drop: int
    take: int
    wait_until_ms: float | None = None


# (deadlines, now, latencies by batch, planned batch) -> Dispatch
Policy = Callable[[Sequence[float], float, Sequence[float], int], Dispatch]


def earliest_first(deadlines_ms: Sequence[float], now_ms: float, latencies_ms: Sequence[float], batch: int) -> Dispatch:
    """Serve the earliest request in time, with as many others as that allows: Clipper's policy.

    Parameters
    ----------
    deadlines_ms : sequence of float
        Of the waiting requests, ascending.
    now_ms : float
    latencies_ms : sequence of float
        By batch size; the first is of batch 0, and none is less than the one before.
    batch : int
        The planned batch; not used by this policy.

    Returns
    -------
    Dispatch

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
    """Give up the earliest requests until the planned batch is in time for the next: Nexus's policy.

    Parameters
    ----------
    deadlines_ms, now_ms, latencies_ms, batch
        As of :func:`earliest_first`. With fewer requests than ``batch`` the window is what is there.

    Returns
    -------
    Dispatch

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
    """Run the largest batch that is in time for all its requests, and give up all before it.

    Parameters
    ----------
    deadlines_ms, now_ms, latencies_ms, batch
        As of :func:`earliest_first`; ``batch`` is not used.

    Returns
    -------
    Dispatch
        Of windows of one size the earliest, which gives up fewest.

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
    """Wait for a fuller batch while one more request would still be in time, then run the sliding window.

    For backends of one session: it waits to the last moment, and knows nothing of batches of others that come between.

    Parameters
    ----------
    deadlines_ms, now_ms, latencies_ms, batch
        As of :func:`earliest_first`.

    Returns
    -------
    Dispatch
        With a time to ask again at, while it waits.

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
    """Find the largest batch that ends before a deadline."""
    return bisect_right(latencies_ms, deadline_ms - now_ms + _ROUNDING) - 1
