"""Background threads that report the exception that ends them."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SupervisedThread"]

_LOG = logging.getLogger(__name__)

# Seconds before a loop without state runs again.
_PAUSE_S = 1.0


class SupervisedThread(threading.Thread):
    """Daemon thread that never ends silently: an exception is logged, and then reported or answered by another run.

    Parameters
    ----------
    work : callable
        Function that the thread runs.
    name : str
        Name of the thread, for the log.
    failed : callable, optional
        Called in this thread with the exception that ended `work`. Default: `work` runs again after a second, which
        suits loops that keep no state between two rounds.

    Examples
    --------
    >>> import logging, queue
    >>> logging.getLogger("udfs.node").setLevel(logging.CRITICAL)
    >>> reports = queue.Queue()
    >>> def work():
    ...     raise ValueError("no rows")
    >>> SupervisedThread(work, "reader", reports.put).start()
    >>> reports.get(timeout=5)
    ValueError('no rows')
    """

    def __init__(
        self, work: Callable[[], object], name: str, failed: Callable[[BaseException], object] | None = None
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._work, self._failed = work, failed

    def run(self) -> None:
        """Run the function to its end; after an exception report it, or run the function again."""
        while True:
            try:
                self._work()
            except BaseException as error:  # noqa: BLE001 - a thread that ends by any exception is missed later
                _LOG.error("thread %r failed", self.name, exc_info=error)
                if self._failed is not None:
                    self._failed(error)
                    return
            else:
                return
            time.sleep(_PAUSE_S)
