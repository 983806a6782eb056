"""Threads of torch and of native trees."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["one_operator_thread", "torch_threads", "tree_threads"]

_TREE_THREADS: ContextVar[int | None] = ContextVar("tree_threads", default=None)


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


@contextmanager
def one_operator_thread(trees: int) -> Iterator[None]:
    """Run operators of torch on one thread, and native trees on a number of them, within a ``with`` block.

    Threads of one operator wait for each other: where other processes take the cores, operators of a tenth of a
    millisecond take ten. Chunks of rows and trees have threads that do not wait.
    """
    token = _TREE_THREADS.set(trees)
    try:
        with torch_threads(1):
            yield
    finally:
        _TREE_THREADS.reset(token)


def tree_threads() -> int:
    """Return the number of threads of native trees: torch's outside of :func:`one_operator_thread`."""
    return _TREE_THREADS.get() or torch.get_num_threads()
