"""Printed output of a unit, shortened to its beginning and end."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from dataclasses import dataclass

__all__ = ["KEPT_BYTES", "Printed", "read_printed", "release_middle"]

KEPT_BYTES = 128 * 1024
"""Number of bytes kept at the beginning of the output, and at its end."""

# FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE of Linux.
_PUNCH_HOLE = 0x01 | 0x02
_BLOCK = 4096

# Size up to which the blocks of a file are not released.
_LARGE = 8 * KEPT_BYTES


@dataclass(frozen=True, slots=True)
class Printed:
    """Printed output of a unit of a trial: the whole text, or its beginning and end."""

    trial_id: str
    first: str  # beginning of the output, after a line that describes the unit
    omitted: int  # number of bytes omitted between the beginning and the end
    last: str  # end of the output


def read_printed(descriptor: int, attempt: str) -> Printed | None:
    """Read an output file; return ``None`` if no unit of the attempt is running, or if it has printed nothing.

    Parameters
    ----------
    descriptor : int
        Descriptor of an output file. Its first line is a JSON array of the attempt, the trial id and the unit.
    attempt : str
        Attempt of a worker, as in :class:`Beat`. The attempts of one process share the file and use it in turn.
    """
    line, end, _ = os.pread(descriptor, _BLOCK, 0).partition(b"\n")
    body, size = len(line) + 1, os.fstat(descriptor).st_size
    if not end or size <= body:
        return None
    try:
        owner, trial_id, unit = json.loads(line)
    except (ValueError, TypeError):  # a thread of the trainer printed while no unit was running
        return None
    if owner != attempt:
        return None
    last = max(body + KEPT_BYTES, size - KEPT_BYTES)
    first = os.pread(descriptor, KEPT_BYTES, body)
    return Printed(
        trial_id,
        f"[{unit}]\n{first.decode(errors='replace')}",
        last - body - KEPT_BYTES if size > last else 0,
        os.pread(descriptor, KEPT_BYTES, last).decode(errors="replace"),
    )


def release_middle(descriptor: int) -> None:
    """Release the disk blocks in the middle of a large output file, which is never read; the file size stays."""
    size = os.fstat(descriptor).st_size
    if sys.platform != "linux" or size < _LARGE:
        return
    begin = KEPT_BYTES + 2 * _BLOCK
    # A file system without support for holes keeps the blocks until the unit ends.
    ctypes.CDLL(None).fallocate(
        descriptor, _PUNCH_HOLE, ctypes.c_int64(begin), ctypes.c_int64(size - KEPT_BYTES - _BLOCK - begin)
    )
