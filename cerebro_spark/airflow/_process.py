"""A process whose lines are read while it runs, and that can be stopped from another thread or a signal handler."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["LoggedProcess"]


class LoggedProcess:
    """A process in a group of its own.

    Parameters
    ----------
    command : sequence of str
        Program and arguments.
    environment : mapping of str to str
        All variables of the process.
    write : callable
        Takes each line that the process prints, but for the JSON object on stdout.
    cwd : str, optional
        Folder of the process; by default that of this one.

    Examples
    --------
    >>> import os
    >>> import sys
    >>> lines = []
    >>> process = LoggedProcess([sys.executable, "-c", "print(1); print('{}')"], os.environ, write=lines.append)
    >>> process.run(), lines, process.summary
    (0, ['1'], {})
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        write: Callable[[str], object],
        cwd: str | None = None,
    ) -> None:
        self._command, self._environment, self._cwd = list(command), dict(environment), cwd
        self._write = write
        self._turn = threading.Lock()
        self._stopped = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self.last_line = ""
        """Line that the process printed last, but for the JSON object and empty ones."""
        self.summary: dict[str, Any] | None = None
        """The last JSON object on a line of stdout."""

    def run(self) -> int:
        """Start the process, wait for its end, and return its exit code; do not start it if it has been stopped."""
        if self._stopped.is_set():
            return -signal.SIGKILL
        self._process = subprocess.Popen(  # noqa: S603 - the user's own command
            self._command,
            env=self._environment,
            cwd=self._cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        readers = [
            threading.Thread(target=self._read, args=(stream, is_stdout), daemon=True)
            for stream, is_stdout in ((self._process.stdout, True), (self._process.stderr, False))
        ]
        for reader in readers:
            reader.start()
        if self._stopped.is_set():  # before there was a process to stop
            self.stop(0.0)
        code = self._process.wait()
        for reader in readers:
            reader.join(1.0)  # a child of the process may hold the pipe open
        return code

    def stop(self, grace_s: float) -> None:
        """Interrupt the process as Ctrl-C does; kill it with its children if it has not ended after `grace_s` seconds.

        A process that has ended is left alone, but not its children. One that has not started does not start.
        """
        self._stopped.set()
        process = self._process
        if process is None:
            return
        with suppress(ProcessLookupError):
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(grace_s)
            os.killpg(process.pid, signal.SIGKILL)

    def _read(self, stream: IO[str], is_stdout: bool) -> None:
        with stream:
            for line in stream:
                self._take(line.rstrip("\n"), is_stdout)

    def _take(self, line: str, is_stdout: bool) -> None:
        summary = _json_object(line) if is_stdout else None
        with self._turn:
            if summary is not None:
                self.summary = summary
            elif line.strip():
                self.last_line = line
                self._write(line)


def _json_object(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    with suppress(ValueError):
        value = json.loads(text)
        return value if isinstance(value, dict) else None
    return None
