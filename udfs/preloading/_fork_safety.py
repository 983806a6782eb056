"""Conditions under which a process may be forked after it has imported a framework."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["fork_hazard"]

_THREADS = Path("/proc/self/task")
_OPEN_FILES = Path("/proc/self/fd")
# Device files of NVIDIA's and AMD's drivers, which a process opens when it initialises a GPU.
_GPU_FILES = ("/dev/nvidia", "/dev/kfd", "/dev/dri/")


def fork_hazard() -> str | None:
    """Return the reason why this process must not be forked, ``None`` if a fork is safe.

    A fork copies only the thread that calls it. A lock that another thread holds at that moment is never released in
    the child, and a GPU that is initialised cannot be used there.

    Returns
    -------
    str or None
        Reason for a log, without a period.

    Examples
    --------
    >>> hazard = fork_hazard()
    >>> hazard is None or isinstance(hazard, str)
    True
    """
    try:
        threads = [_name(each) for each in _THREADS.iterdir()]
        opened = [_target(each) for each in _OPEN_FILES.iterdir()]
    except OSError:
        return "this system has no /proc, so its threads are unknown"
    if len(threads) > 1:
        return f"the process has {len(threads)} threads ({', '.join(sorted(threads))})"
    gpu_files = sorted({path for path in opened if path.startswith(_GPU_FILES)})
    if gpu_files:
        return f"a GPU is open ({', '.join(gpu_files)})"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "torch has initialised a GPU"
    return None


def _name(thread: Path) -> str:
    try:
        return (thread / "comm").read_text().strip()
    except OSError:
        return "ended"


def _target(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except OSError:
        return ""  # closed since it was listed, as is the descriptor of the listing
