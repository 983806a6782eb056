"""Python's collector of reference cycles, kept away from what a process holds for long."""

from __future__ import annotations

import gc
import threading

__all__ = ["FrozenHeap"]

_lock = threading.Lock()
_frozen = 0


class FrozenHeap:
    """Exclude all present objects from garbage collection while requests are answered within milliseconds.

    A collection stops every thread while it scans the objects of the process. In a driver with torch, MLflow and
    scikit-learn it takes a quarter of a second, so that many requests miss their deadline. Several instances may be
    frozen at a time; the objects are collected again when the last one is thawed.

    Examples
    --------
    >>> heap = FrozenHeap()
    >>> heap.freeze()
    >>> gc.get_freeze_count() > 0
    True
    >>> heap.thaw()
    >>> gc.get_freeze_count()
    0
    """

    def __init__(self) -> None:
        self._is_frozen = False

    def freeze(self) -> None:
        """Collect garbage, and exclude the remaining objects from later ones; repeat after freeing large objects."""
        global _frozen  # noqa: PLW0603 - the collector is one for the process
        with _lock:
            gc.unfreeze()
            gc.collect()
            gc.freeze()
            if not self._is_frozen:
                self._is_frozen = True
                _frozen += 1

    def thaw(self) -> None:
        """Enable the collection of all objects again, unless another instance is still frozen."""
        global _frozen  # noqa: PLW0603
        with _lock:
            if not self._is_frozen:
                return
            self._is_frozen = False
            _frozen -= 1
            if not _frozen:
                gc.unfreeze()
