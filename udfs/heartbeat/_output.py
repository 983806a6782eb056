"""Catches what a process prints, from Python and from C alike."""

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

from udfs.heartbeat._printed import read_printed

if TYPE_CHECKING:
    from udfs.heartbeat._printed import Printed

__all__ = ["Output"]

# This project's own warnings are about the worker, not about a trial.
_OWN = logging.getLogger("udfs")

_STDOUT, _STDERR = 1, 2


class Output:
    """Standard output and error of this process, in a file without a name instead of the console.

    A pipe would need a reader: a thread of this process cannot run while C code prints under Python's global lock. A
    file needs none, and another process that has its descriptor reads it when this one is dead. The system deletes it
    with the last of them.

    From :meth:`start` to :meth:`stop` the descriptors 1 and 2 are the file's. Warnings of this project still go to the
    console.

    Attributes
    ----------
    descriptor : int
        Of the file, for a child process to inherit; see :func:`read_printed`.

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
        # It is emptied while others write to it.
        flags = fcntl.fcntl(self.descriptor, fcntl.F_GETFL)
        fcntl.fcntl(self.descriptor, fcntl.F_SETFL, flags | os.O_APPEND)
        self._console: tuple[int, int] | None = None
        self._handler: logging.Handler | None = None

    @property
    def console(self) -> int:
        """Descriptor of the standard error as it was."""
        return _STDERR if self._console is None else self._console[1]

    def start(self) -> None:
        """Catch what is printed from now on."""
        _flush()
        self._console = os.dup(_STDOUT), os.dup(_STDERR)
        self._handler = logging.StreamHandler(os.fdopen(self._console[1], "w", closefd=False))
        _OWN.addHandler(self._handler)
        os.dup2(self.descriptor, _STDOUT)
        os.dup2(self.descriptor, _STDERR)
        # So that what is printed before the process dies is in the file.
        _set_line_buffering(on=True)

    def stop(self) -> None:
        """Let the process print to its console again."""
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
        """Empty the file, and write down whose output follows.

        Parameters
        ----------
        attempt : str
            Of the worker, as in :class:`Beat`.
        trial_id : str
        unit : str
            One line about the unit, for people.
        """
        self._empty()
        os.write(self.descriptor, json.dumps([attempt, trial_id, unit]).encode() + b"\n")

    def take(self, attempt: str) -> Printed | None:
        """Take what an attempt printed since its :meth:`begin`; ``None`` where nothing was."""
        _flush()
        printed = read_printed(self.descriptor, attempt)
        self._empty()
        return printed

    def _empty(self) -> None:
        _flush()
        os.ftruncate(self.descriptor, 0)


def _flush() -> None:
    # A trainer may have closed or replaced them.
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    ctypes.CDLL(None).fflush(None)


def _set_line_buffering(*, on: bool) -> None:
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.reconfigure(line_buffering=on)  # type: ignore[union-attr]
