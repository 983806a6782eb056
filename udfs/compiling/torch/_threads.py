"""Threads of torch and of native trees."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["one_operator_thread", "thread_pool", "torch_threads", "tree_threads"]

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


@cache
def thread_pool(threads: int, name: str = "chunks") -> ThreadPoolExecutor:
    """Return the pool of this process with a number of threads and a name."""
    return ThreadPoolExecutor(threads, thread_name_prefix=name)


# A forked process has the pools of its parent, and none of their threads.
os.register_at_fork(after_in_child=thread_pool.cache_clear)
