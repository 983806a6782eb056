"""Threads of torch for a while."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["torch_threads"]


@contextmanager
def torch_threads(threads: int | None) -> Iterator[None]:
    """Let torch run on so many threads, and then on as many as before; ``None`` leaves their number alone."""
    before = torch.get_num_threads()
    if threads is None or threads == before:
        yield
        return
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
