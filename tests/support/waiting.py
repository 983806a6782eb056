"""Waiting for what other threads do."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["until"]


def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait until a condition is true, and fail the test if it is still false after some seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)
