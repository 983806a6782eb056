"""Text that a unit printed, as far as it is kept."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from dataclasses import dataclass

__all__ = ["KEPT_BYTES", "Printed", "read_printed", "release_middle"]

KEPT_BYTES = 128 * 1024
"""Bytes at the beginning that are kept, and as many at the end."""

# FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE of Linux.
_PUNCH_HOLE = 0x01 | 0x02
_BLOCK = 4096

# A file up to here is left as it is.
_LARGE = 8 * KEPT_BYTES


@dataclass(frozen=True, slots=True)
class Printed:
    """Text that a unit of a trial printed: all of it, or its beginning and its end.

    Parameters
    ----------
    trial_id : str
    first : str
        The beginning, after a line that says which unit it is.
    omitted : int
        Bytes that are left out between the two.
    last : str
        What follows.
    """

    trial_id: str
    first: str
    omitted: int
    last: str


def read_printed(descriptor: int, attempt: str) -> Printed | None:
    """Read an output file: ``None`` where no unit of an attempt goes on, or it has printed nothing.

    Parameters
    ----------
    descriptor : int
        Of a file whose first line, in JSON, has the attempt, the trial's id and the unit.
    attempt : str
        Of a worker, as in :class:`Beat`: several of a process print to one file, each in its turn.
    """
    line, end, _ = os.pread(descriptor, _BLOCK, 0).partition(b"\n")
    body, size = len(line) + 1, os.fstat(descriptor).st_size
    if not end or size <= body:
        return None
    try:
        owner, trial_id, unit = json.loads(line)
    except (ValueError, TypeError):  # a thread of the trainer's prints while no unit goes on
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
    """Give the disk back the blocks of a large output file that nobody will read; its size stays.

    Parameters
    ----------
    descriptor : int
    """
    size = os.fstat(descriptor).st_size
    if sys.platform != "linux" or size < _LARGE:
        return
    begin = KEPT_BYTES + 2 * _BLOCK
    # A file system that cannot keeps them until the unit ends.
    ctypes.CDLL(None).fallocate(
        descriptor, _PUNCH_HOLE, ctypes.c_int64(begin), ctypes.c_int64(size - KEPT_BYTES - _BLOCK - begin)
    )
