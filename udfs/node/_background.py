"""Work in the time that nothing else on the node needs."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["background"]

P = ParamSpec("P")
T = TypeVar("T")

_LEAST = 19


def background(function: Callable[P, T]) -> Callable[P, T]:
    """Wrap a function to run in a thread of the lowest priority, which yields to every other thread.

    Only the thread gets a lower priority, because an unprivileged process cannot raise a lowered priority. Threads
    that the function starts inherit it, for example those of torch. Threads that a library started before keep theirs,
    for example those of TensorFlow. It has an effect on Linux only, where each thread has a priority.

    Examples
    --------
    >>> import os
    >>> before = os.nice(0)
    >>> background(lambda: os.getpriority(os.PRIO_PROCESS, 0))() >= before, os.nice(0) == before
    (True, True)
    """
    # Its thread ends with the last reference to it.
    pool = ThreadPoolExecutor(1, "background", initializer=_lower)

    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return pool.submit(function, *args, **kwargs).result()

    return run


def _lower() -> None:
    if sys.platform == "linux":
        with suppress(OSError):  # a sandbox may forbid it
            os.setpriority(os.PRIO_PROCESS, 0, _LEAST)
