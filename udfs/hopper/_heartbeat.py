"""Tells the driver that a worker's process lives, and ends the process where the driver has given it up."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING

from udfs.hopper._messages import Abort, Beat
from udfs.rpc import CallError, RefusedError

if TYPE_CHECKING:
    from udfs.rpc import Caller

__all__ = ["Heartbeat"]

_LOG = logging.getLogger(__name__)

_BEAT_S = 1.0
_CALL_S = 30.0


class Heartbeat:
    """A thread that beats once a second until it is stopped.

    Parameters
    ----------
    worker, attempt : str
        The sender.
    driver : Caller
    """

    def __init__(self, worker: str, attempt: str, driver: Caller) -> None:
        self._beat = Beat(worker=worker, attempt=attempt)
        self._driver = driver
        self._over = threading.Event()

    def start(self) -> None:
        """Beat from now on."""
        threading.Thread(target=self._run, name="beat", daemon=True).start()

    def stop(self) -> None:
        """Beat no more."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(_BEAT_S):
            try:
                reply = self._driver.call(self._beat, timeout_s=_CALL_S)
            except (CallError, RefusedError):
                if self._over.is_set():
                    # The connection was closed under the call: the worker is at its end.
                    return
                _LOG.exception("worker %s lost its driver", self._beat.worker)
                os._exit(3)
            if isinstance(reply, Abort):
                _LOG.error("worker %s ends: the driver gave up on what it does", self._beat.worker)
                os._exit(4)
