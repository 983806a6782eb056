"""Memory of this process, as the kernel counts it."""

from __future__ import annotations

from pathlib import Path

__all__ = ["process_memory"]


def process_memory() -> dict[str, int]:
    """Return the entries of ``/proc/self/status`` that are sizes, in bytes: ``VmHWM``, ``RssAnon``, ``RssFile``, ..."""
    entries = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    return {entry[0].rstrip(":"): 1024 * int(entry[1]) for entry in entries if entry[-1] == "kB"}
