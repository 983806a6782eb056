"""State of another process, from the operating system."""

from __future__ import annotations

import subprocess
import sys
from enum import Enum
from pathlib import Path

__all__ = ["ProcessState", "process_state"]


class ProcessState(Enum):
    """States of a process that a heartbeat distinguishes."""

    RUNS = "runs"
    STOPPED = "stopped"
    GONE = "gone"


# State letters of /proc and ps: stopped by a signal (T) or a debugger (t); zombie (Z), dead (X), or without an entry.
_STATES = {
    "T": ProcessState.STOPPED,
    "t": ProcessState.STOPPED,
    "Z": ProcessState.GONE,
    "X": ProcessState.GONE,
    "": ProcessState.GONE,
}


def process_state(pid: int) -> ProcessState:
    """Return the state of a process, from ``/proc`` on Linux and from ``ps`` elsewhere.

    A process that sleeps, computes or waits for a disk counts as running. Without ``/proc`` and ``ps``, every process
    counts as running.

    Examples
    --------
    >>> import os
    >>> process_state(os.getpid())
    <ProcessState.RUNS: 'runs'>
    """
    letter = _letter_of_proc(pid) if sys.platform == "linux" else _letter_of_ps(pid)
    return _STATES.get(letter, ProcessState.RUNS)


def _letter_of_proc(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    # The state follows the name of the program, which is in parentheses and may contain any character.
    return stat.rpartition(b")")[2].split()[0].decode()


def _letter_of_ps(pid: int) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - a number
            ["ps", "-o", "state=", "-p", str(pid)],  # noqa: S607 - wherever the system has it
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return "R"
    return done.stdout.strip()[:1]
