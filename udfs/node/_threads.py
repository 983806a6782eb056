"""CPU threads of a worker's process."""

from __future__ import annotations

import os
import sys

__all__ = ["limit_threads"]


def limit_threads(threads: int) -> None:
    """Set the number of CPU threads before a framework reads it; tell one that is imported already."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    os.environ["TF_NUM_INTRAOP_THREADS"] = os.environ["TF_NUM_INTEROP_THREADS"] = str(threads)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(threads)
