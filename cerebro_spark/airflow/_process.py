"""A process whose lines are read while it runs, and that can be stopped from another thread or a signal handler."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections import deque
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["LoggedProcess"]

_KEPT_LINES = 20


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
    >>> process = LoggedProcess([sys.executable, "-c", "print(1); print('{}')"], os.environ, write=print)
    >>> process.wait()
    1
    0
    >>> process.summary
    {}
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        write: Callable[[str], object],
        cwd: str | None = None,
    ) -> None:
        self._write = write
        self._turn = threading.Lock()
        self.last_lines: deque[str] = deque(maxlen=_KEPT_LINES)
        """Lines that the process printed last."""
        self.summary: dict[str, Any] | None = None
        """The last JSON object on a line of stdout."""
        self._process = subprocess.Popen(  # noqa: S603 - the user's own command
            list(command),
            env=dict(environment),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._readers = [
            threading.Thread(target=self._read, args=(stream, is_stdout), daemon=True)
            for stream, is_stdout in ((self._process.stdout, True), (self._process.stderr, False))
        ]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        """Number of the process, and of its group."""
        return self._process.pid

    def wait(self) -> int:
        """Wait for the end of the process, and return its exit code."""
        code = self._process.wait()
        for reader in self._readers:
            reader.join(1.0)  # a child of the process may hold the pipe open
        return code

    def stop(self, grace_s: float) -> None:
        """Interrupt the process as Ctrl-C does; kill it with its children if it has not ended after `grace_s` seconds.

        A process that has ended is left alone, but not its children.
        """
        with suppress(ProcessLookupError):
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGINT)
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(grace_s)
            os.killpg(self.pid, signal.SIGKILL)

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
                self.last_lines.append(line)
                self._write(line)


def _json_object(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    with suppress(ValueError):
        value = json.loads(text)
        return value if isinstance(value, dict) else None
    return None
