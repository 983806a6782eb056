"""Whether another process runs, as the operating system says."""

from __future__ import annotations

import subprocess
import sys
from enum import Enum
from pathlib import Path

__all__ = ["ProcessState", "process_state"]


class ProcessState(Enum):
    """States of a process, as far as a heartbeat tells them apart."""

    RUNS = "runs"
    STOPPED = "stopped"
    GONE = "gone"


# Letters of /proc and of ps: stopped by a signal, or by a debugger; dead, and not yet asked for its exit status.
_STATES = {
    "T": ProcessState.STOPPED,
    "t": ProcessState.STOPPED,
    "Z": ProcessState.GONE,
    "X": ProcessState.GONE,
    "": ProcessState.GONE,
}


def process_state(pid: int) -> ProcessState:
    """Look a process up: in ``/proc`` on Linux, by ``ps`` elsewhere.

    A process that sleeps, computes or waits for a disk runs. Where there is no ``ps`` either, every process runs.

    Parameters
    ----------
    pid : int

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
    # After the program's name, which is in brackets and may have any character.
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
