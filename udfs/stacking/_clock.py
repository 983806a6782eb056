"""Clock for steps of training that a busy machine disturbs as little as possible."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from udfs.handlers import framework

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["step_clock"]


def step_clock(session: Any) -> Callable[[], float]:
    """Return a clock in seconds: the CPU's of this thread if a session computes in it alone, else the wall's.

    Other processes delay a thread without changing the time that it computes.
    """
    is_alone = session.device.type == "cpu" and framework("torch").threads() == 1
    return time.thread_time if is_alone else time.perf_counter
