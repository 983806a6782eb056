"""Notice that the machine of this process is about to end, such as a spot machine that is reclaimed."""

from __future__ import annotations

import logging
import math
import os
import signal
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NOTICE_VARIABLE", "Interruption"]

_LOG = logging.getLogger(__name__)

NOTICE_VARIABLE = "CEREBRO_SPARK_PREEMPTION_FILE"
"""Environment variable with the path of a file that an agent of the node creates when the machine is to end."""

# Spark's Python daemon passes a SIGTERM on to its workers as a SIGHUP.
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)

_LOOK_S = 1.0

# Share of the grace period that is left for handing over, once a unit does not end in time.
_RESERVE = 0.2


class Interruption:
    """Notice of the end of this process, by SIGTERM, SIGHUP or a file, and the time that is left.

    Parameters
    ----------
    grace_s : float
        Seconds from the notice to the end.

    Examples
    --------
    >>> interruption = Interruption(30.0)
    >>> interruption.is_noticed(), interruption.remaining_s
    (False, inf)
    >>> interruption.notice()
    >>> interruption.is_noticed(), 29 < interruption.remaining_s <= 30
    (True, True)
    """

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._noticed = threading.Event()
        self._until = math.inf
        path = os.environ.get(NOTICE_VARIABLE)
        self._file = Path(path) if path else None
        self._begun = time.time()
        self._has_warned = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals of this process in a ``with`` block of its main thread; elsewhere only the file counts."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, lambda *_: self.notice()) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def notice(self) -> None:
        """Start the grace period, unless it has begun."""
        if self._until == math.inf:
            self._until = time.monotonic() + self._grace_s
        self._noticed.set()

    def wait(self) -> None:
        """Wait for the notice."""
        while not self._noticed.wait(None if self._file is None else _LOOK_S):
            if self._file is not None and self._is_recent(self._file):
                self.notice()

    def _is_recent(self, file: Path) -> bool:
        """Return whether the file announces an end that is still to come.

        A file that was older than the grace period when this process began is left over from an earlier notice: the
        machine outlived it.
        """
        try:
            age_s = self._begun - file.stat().st_mtime
        except OSError:
            return False
        if age_s <= self._grace_s:
            return True
        if not self._has_warned:
            self._has_warned = True
            _LOG.warning(
                "%s=%s is %.0f s older than this worker, more than grace_s=%g, and is ignored. Delete the file when "
                "the machine goes on",
                NOTICE_VARIABLE,
                file,
                age_s,
                self._grace_s,
            )
        return False

    def is_noticed(self) -> bool:
        """Return ``True`` from the notice on."""
        return self._noticed.is_set()

    @property
    def remaining_s(self) -> float:
        """Seconds until the end; infinite before the notice."""
        return max(0.0, self._until - time.monotonic())

    @property
    def unit_s(self) -> float:
        """Seconds that a unit may still take, so that there is time to hand over."""
        return max(0.0, self.remaining_s - _RESERVE * self._grace_s)
