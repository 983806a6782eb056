"""Capture of the standard output and error of a process, from Python and from C code."""

from __future__ import annotations

import ctypes
import fcntl
import json
import logging
import os
import sys
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING

from udfs.heartbeat._printed_output import read_printed

if TYPE_CHECKING:
    from udfs.heartbeat._printed_output import Printed

__all__ = ["Output"]

# Warnings of this project concern the worker, not a trial.
_OWN = logging.getLogger("udfs")

_STDOUT, _STDERR = 1, 2


class Output:
    """Standard output and error of this process, redirected from the console to an unnamed file.

    A pipe would need a reader, and a reader thread cannot run while C code prints under Python's global lock. A file
    needs no reader, and a child process that inherits its descriptor can read it after this process has died. The
    system deletes the file when its last descriptor is closed.

    From :meth:`start` to :meth:`stop` the descriptors 1 and 2 refer to the file. Warnings of this project still go to
    the console.

    Attributes
    ----------
    descriptor : int
        Descriptor of the file, for a child process to inherit; see :func:`read_printed`.

    Examples
    --------
    >>> import os
    >>> output = Output()
    >>> output.start()
    >>> output.begin("attempt", "c000", "train c000 epoch 0 partition 1 on w0")
    >>> _ = os.system("echo a step")
    >>> printed = output.take("attempt")
    >>> output.stop()
    >>> printed.first.splitlines()
    ['[train c000 epoch 0 partition 1 on w0]', 'a step']
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by stop()
        self.descriptor = self._file.fileno()
        # The file is truncated while other threads write to it.
        flags = fcntl.fcntl(self.descriptor, fcntl.F_GETFL)
        fcntl.fcntl(self.descriptor, fcntl.F_SETFL, flags | os.O_APPEND)
        self._console: tuple[int, int] | None = None
        self._handler: logging.Handler | None = None

    @property
    def console(self) -> int:
        """Descriptor of the standard error before the redirection."""
        return _STDERR if self._console is None else self._console[1]

    def start(self) -> None:
        """Start to capture output."""
        _flush()
        self._console = os.dup(_STDOUT), os.dup(_STDERR)
        self._handler = logging.StreamHandler(os.fdopen(self._console[1], "w", closefd=False))
        _OWN.addHandler(self._handler)
        os.dup2(self.descriptor, _STDOUT)
        os.dup2(self.descriptor, _STDERR)
        # Without line buffering, the last lines before the death of the process would be lost.
        _set_line_buffering(on=True)

    def stop(self) -> None:
        """Restore the output to the console."""
        if self._console is not None:
            _flush()
            _set_line_buffering(on=False)
            for place, descriptor in zip((_STDOUT, _STDERR), self._console, strict=True):
                os.dup2(descriptor, place)
                os.close(descriptor)
            self._console = None
        if self._handler is not None:
            _OWN.removeHandler(self._handler)
        self._file.close()

    def begin(self, attempt: str, trial_id: str, unit: str) -> None:
        """Empty the file and write a header that identifies the unit whose output follows."""
        self._empty()
        os.write(self.descriptor, json.dumps([attempt, trial_id, unit]).encode() + b"\n")

    def take(self, attempt: str) -> Printed | None:
        """Remove and return the output of an attempt since :meth:`begin`; ``None`` if there is none."""
        _flush()
        printed = read_printed(self.descriptor, attempt)
        self._empty()
        return printed

    def _empty(self) -> None:
        _flush()
        os.ftruncate(self.descriptor, 0)


def _flush() -> None:
    # A trainer may have closed or replaced the streams.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    ctypes.CDLL(None).fflush(None)


def _set_line_buffering(*, on: bool) -> None:
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.reconfigure(line_buffering=on)  # type: ignore[union-attr]
