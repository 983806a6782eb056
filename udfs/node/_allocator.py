"""Settings of the C library's allocator for a worker, which soon needs again the memory that it frees."""

from __future__ import annotations

import ctypes
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["freed_memory_kept", "keep_freed_memory", "return_freed_memory"]

# The parameters of mallopt(3), from glibc's malloc.h, and their defaults.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
_TRIM_DEFAULT, _MMAP_DEFAULT = 128 << 10, 65536


def keep_freed_memory() -> bool:
    """Configure glibc to keep freed memory for later allocations of this process.

    By default glibc maps every large block anew and the kernel zeroes it, one page fault at a time. A network allocates
    its activations once an operation and batch: for MobileNetV2 at a batch of 32 that is more than half of the time.
    The peak of resident memory is the same, but it is held until the process ends.

    Returns
    -------
    bool
        Whether the C library took it; another one than glibc does not.
    """
    return _set(0, -1)


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Keep freed memory within a block, as a worker does: what is measured there takes as long as on a worker.

    Afterwards glibc's defaults hold, and what was kept goes back to the system.

    Examples
    --------
    >>> with freed_memory_kept():
    ...     held = bytearray(1 << 20)
    """
    kept = keep_freed_memory()
    try:
        yield
    finally:
        if kept:
            _set(_MMAP_DEFAULT, _TRIM_DEFAULT)
            return_freed_memory()


def _set(mmap_max: int, trim_threshold: int) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(_MMAP_MAX, mmap_max)) and bool(mallopt(_TRIM_THRESHOLD, trim_threshold))


def return_freed_memory() -> bool:
    """Return freed memory to the system, once, also where :func:`keep_freed_memory` has it kept.

    To open a network takes memory that nothing takes up again: for a MiniLM of 86 MiB that is 230 MiB.

    Returns
    -------
    bool
        Whether the C library gave some back; another one than glibc does not.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform.startswith("linux") else None
    return trim is not None and bool(trim(0))
