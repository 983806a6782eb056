"""Seconds of a call: of all threads of the process, and by the clock."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Spent", "first_answer", "spent"]

_ENOUGH_S = 0.05


class Spent(NamedTuple):
    """Median seconds of a warm call.

    Parameters
    ----------
    cpu, wall : float
    """

    cpu: float
    wall: float


def spent(call: Callable[[], Any], repeats: int = 5) -> Spent:
    """Measure a call after a first one; one that is short is called again and again."""
    call()
    began = time.perf_counter()
    call()
    times = max(int(_ENOUGH_S / max(time.perf_counter() - began, 1e-9)), 1)
    found = []
    for _ in range(repeats):
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(times):
            call()
        found.append(((time.process_time() - cpu) / times, (time.perf_counter() - wall) / times))
    return Spent(statistics.median(cpu for cpu, _ in found), statistics.median(wall for _, wall in found))


def first_answer(make: Callable[[], Callable[..., Any]], rows: Any) -> tuple[Callable[..., Any], float]:
    """Build a callable, score some rows with it, and return it with the wall-clock seconds of both."""
    began = time.perf_counter()
    call = make()
    call(rows)
    return call, time.perf_counter() - began
