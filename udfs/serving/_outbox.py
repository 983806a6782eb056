"""Queue of answers that wait to be collected."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from udfs.serving._message_size import HasBytes, fill_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Outbox"]

_T = TypeVar("_T", bound=HasBytes)


class Outbox(Generic[_T]):
    """Answers in the order of completion, each kept until its collector confirms it; any thread may call every method.

    A connection may break after an answer was written to it, so only a confirmation removes it.

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
        """End the current or the next wait without an answer."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def revise(self, revision: Callable[[_T], _T]) -> None:
        """Replace each answer by the result of a function."""
        with self._changed:
            self._answers = deque(map(revision, self._answers))

    def take(self, after: int, timeout_s: float) -> tuple[tuple[_T, ...], int]:
        """Drop answers up to a number; return the next ones that fit into a message, and the number of the last."""
        with self._changed:
            while self._answers and self._first <= after:
                self._answers.popleft()
                self._first += 1
            self._changed.wait_for(lambda: self._answers or self._woken, timeout_s)
            self._woken = False
            message = tuple(fill_message(self._answers))
            return message, self._first - 1 + len(message) if message else after
