"""Answers that wait to be collected."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from udfs.serving._fitting import HasBytes, fitting

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Outbox"]

_T = TypeVar("_T", bound=HasBytes)


class Outbox(Generic[_T]):
    """Answers in the order in which they are ready, each kept until whoever collects them says that it has it.

    A connection may break after an answer was written to it. Every method may be called from any thread.

    Examples
    --------
    >>> from udfs.serving._messages import Answer
    >>> box = Outbox()
    >>> box.put([Answer(7, "", "", {}), Answer(8, "", "", {})])
    >>> [answer.number for answer in box.take(0, 1.0)[0]], box.take(0, 1.0)[1]
    ([7, 8], 2)
    >>> box.take(2, 0.0)
    ((), 2)
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._answers: deque[_T] = deque()
        self._first = 1
        self._woken = False

    def put(self, answers: Iterable[_T]) -> None:
        """Add answers."""
        with self._changed:
            self._answers.extend(answers)
            self._changed.notify_all()

    def wake(self) -> None:
        """Have whoever waits go on without an answer, now or the next time."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def take(self, after: int, timeout_s: float) -> tuple[tuple[_T, ...], int]:
        """Forget answers up to a number, and give what is ready behind it, with the number of the last of them."""
        with self._changed:
            while self._answers and self._first <= after:
                self._answers.popleft()
                self._first += 1
            self._changed.wait_for(lambda: self._answers or self._woken, timeout_s)
            self._woken = False
            taken = tuple(fitting(self._answers))
            return taken, self._first - 1 + len(taken) if taken else after
