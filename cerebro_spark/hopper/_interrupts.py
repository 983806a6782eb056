"""Interrupts by the user (Ctrl-C, a notebook's stop button): the first one is raised, later ones wait."""

from __future__ import annotations

import logging
import signal
import threading
import time
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["Interrupts"]

_LOG = logging.getLogger(__name__)

# Cleaning up takes less; should a user's callback hang in it, an interrupt gets through after that.
_HELD_S = 90.0


class Interrupts:
    """Raises the first interrupt as ``KeyboardInterrupt``, and holds those that come while a run is being ended.

    A context manager, in the main thread; elsewhere no interrupt arrives, and it does nothing. Spark's own handler
    would cancel the jobs of all sessions of the application: it waits until the end of the block. So does Python's;
    another one is called as it would have been.

    Examples
    --------
    >>> import os, signal, time
    >>> with Interrupts() as interrupts:
    ...     try:
    ...         os.kill(os.getpid(), signal.SIGINT)
    ...         time.sleep(1)
    ...     except KeyboardInterrupt:
    ...         os.kill(os.getpid(), signal.SIGINT)
    ...         print("cleaned up")
    cleaned up
    """

    def __init__(self) -> None:
        self._former: Any = None
        self._held_until = 0.0
        self._pending = False

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            former = signal.getsignal(signal.SIGINT)
            if callable(former):
                self._former = former
                signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        if self._former is not None:
            signal.signal(signal.SIGINT, self._former)

    def hold(self) -> None:
        """Raise no interrupt from now on, for 90 seconds."""
        self._held_until = time.monotonic() + _HELD_S

    def release(self) -> None:
        """Raise interrupts again, and the one that was held if there was one."""
        self._held_until = 0.0
        if self._pending:
            self._pending = False
            self._raise()

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if time.monotonic() < self._held_until:
            self._pending = True
            _LOG.warning("interrupted already: the workers are being ended, which takes some seconds")
        elif self._replaces:
            self._raise()
        else:
            self._former(number, frame)

    @property
    def _replaces(self) -> bool:
        """True if the former handler is Python's or Spark's."""
        module: str = getattr(self._former, "__module__", None) or ""
        return self._former is signal.default_int_handler or module.startswith("pyspark.")

    def _raise(self) -> None:
        self.hold()
        raise KeyboardInterrupt
