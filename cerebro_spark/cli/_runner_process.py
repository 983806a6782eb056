"""Runner of a pool as a child of the server: it is started again if it fails, and ends with the server."""

from __future__ import annotations

import logging
import os
import secrets
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["RunnerProcess"]

_LOG = logging.getLogger(__name__)

# A runner that ends earlier has failed to start. After so many failures it is not started again.
_STARTED_S = 60.0
_MOST_FAILURES = 3
_PAUSE_S = 2.0
# For the runner to deliver outcomes.
_STOP_S = 20.0


class RunnerProcess:
    """Process of ``cerebro runner``.

    Its standard input is a pipe of this process, so that it sees the end of this process, however that comes.

    Parameters
    ----------
    arguments : sequence of str
        Arguments of the command.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        self.token = secrets.token_urlsafe(32)
        """Access token, which only the environment of the process contains: other users can read command lines."""
        self._command = [sys.executable, "-m", "cerebro_spark", "runner", *arguments, "--stop-with-input"]
        self._environment = {**os.environ, "CEREBRO_TOKEN": self.token}
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._supervise, name="runner process", daemon=True)

    def start(self) -> None:
        """Start the process, and return at once."""
        self._thread.start()

    def stop(self) -> None:
        """End the process, if it has started; kill it if it takes too long."""
        with self._lock:
            self._stopping.set()
            process = self._process
        if process is not None:
            assert process.stdin is not None  # it is a pipe
            process.stdin.close()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
        if self._thread.is_alive():
            self._thread.join()

    def _supervise(self) -> None:
        failures = 0
        while not self._stopping.is_set() and failures < _MOST_FAILURES:
            began = time.monotonic()
            with self._lock:
                if self._stopping.is_set():
                    return
                # A session of its own: an interrupt at the terminal is for the server, which ends the runner.
                self._process = subprocess.Popen(  # noqa: S603 - arguments of our own
                    self._command, env=self._environment, stdin=subprocess.PIPE, start_new_session=True
                )
                stdin = self._process.stdin
            status = self._process.wait()
            assert stdin is not None  # it is a pipe
            stdin.close()
            if self._stopping.is_set():
                return
            failures = 0 if time.monotonic() - began > _STARTED_S else failures + 1
            _LOG.error("the runner ended with status %d", status)
            self._stopping.wait(_PAUSE_S * failures)
        if not self._stopping.is_set():
            _LOG.error("the runner has failed %d times in a row, and is not started again", failures)
