"""Answers that wait for the router to collect them."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from udfs.serving._messages import Answer

__all__ = ["Outbox"]


class Outbox:
    """Answers in the order in which they are ready, each kept until the router says that it has it.

    A connection may break after an answer was written to it. Every method may be called from any thread.

    Parameters
    ----------
    most_bytes : int
        Of one collection.

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

    def __init__(self, most_bytes: int = 32 << 20) -> None:
        self._most = most_bytes
        self._changed = threading.Condition()
        self._answers: deque[tuple[int, Answer]] = deque()
        self._count = 0

    def put(self, answers: Iterable[Answer]) -> None:
        """Add answers."""
        with self._changed:
            for answer in answers:
                self._count += 1
                self._answers.append((self._count, answer))
            self._changed.notify_all()

    def take(self, after: int, timeout_s: float) -> tuple[tuple[Answer, ...], int]:
        """Forget answers up to a number, and give what is ready behind it, with the number of the last of them."""
        with self._changed:
            while self._answers and self._answers[0][0] <= after:
                self._answers.popleft()
            self._changed.wait_for(lambda: bool(self._answers), timeout_s)
            taken: list[Answer] = []
            held, last = 0, after
            for number, answer in self._answers:
                held += sum(array.nbytes for array in answer.outputs.values())
                if taken and held > self._most:
                    break
                taken.append(answer)
                last = number
            return tuple(taken), last
