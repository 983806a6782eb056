"""A request for an application, and the calls that it made."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from udfs.serving import Joined

if TYPE_CHECKING:
    from concurrent.futures import Future

    from vista_spark.serving._live_app import LiveApp

__all__ = ["AppRequest"]


class AppRequest:
    """A request for an application: rows that are answered each by a run of its code.

    Parameters
    ----------
    live : LiveApp
    rows : int
    deadline : float
        By this process's monotonic clock, in seconds.

    Attributes
    ----------
    joined : Joined
        Its future, and the answers to its rows. The calls end with it.
    """

    def __init__(self, live: LiveApp, rows: int, deadline: float) -> None:
        self.live, self.deadline = live, deadline
        self._lock = threading.Lock()
        self._calls: list[Future[Any]] = []
        self.joined = Joined(rows, lambda: None)
        # Also when it is answered: a call whose result was not read is of no use.
        self.joined.future.add_done_callback(lambda _: self._cancel_calls())

    def called(self, call: Future[Any]) -> None:
        """Note a call, which nobody waits for once the request is over."""
        with self._lock:
            self._calls.append(call)
        if self.joined.future.done():
            call.cancel()

    def _cancel_calls(self) -> None:
        with self._lock:
            calls = list(self._calls)
        for call in calls:
            call.cancel()
