"""Name of this machine's processor."""

from __future__ import annotations

import os
import platform
from pathlib import Path

__all__ = ["hardware"]


def hardware() -> str:
    """Return the name of this machine's processor and its number of cores."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores"
