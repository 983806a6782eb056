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
    """Set the number of torch threads within a ``with`` block, and restore it afterwards; ``None`` keeps the number."""
    before = torch.get_num_threads()
    if threads is None or threads == before:
        yield
        return
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
