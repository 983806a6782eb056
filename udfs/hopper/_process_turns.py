"""Turns of the runs that share a worker's process: one trains at a time, and all get equal time."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Turn"]

ResultT = TypeVar("ResultT")


class Turn:
    """The right to train in this process, and the thread that does.

    Random numbers, threads of a framework and the standard output are of the process: one run at a time has them. The
    next turn is that of the waiting run with the least time, so that a run of short units is not held up by one of
    long units more than it has to be. A run that had nothing to train begins again where the others are: it does not
    catch up.

    What runs in a turn runs in the thread that calls :meth:`work`, the process's main one, as in an ordinary loop.

    Examples
    --------
    >>> turn = Turn()
    >>> turn.take("a", 0.0), turn.take("b", 0.0), turn.wanted("a")
    (True, False, True)
    >>> turn.give_up("a")
    >>> turn.take("b", 0.0), turn.wanted("b")
    (True, False)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._holder: str | None = None
        self._since = (0.0, 0.0)
        self._waiting: dict[str, None] = {}  # in the order in which they came
        self._seconds: dict[str, float] = {}
        self._cpu_seconds: dict[str, float] = {}
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | BaseException | None] = SimpleQueue()

    def take(self, name: str, timeout_s: float) -> bool:
        """Wait for the turn.

        Parameters
        ----------
        name : str
            Name of the waiting caller. It keeps its place until it calls again or calls :meth:`leave`.
        """
        with self._changed:
            if self._holder == name:
                return True
            if name not in self._waiting:
                others = [*self._waiting, *([] if self._holder is None else [self._holder])]
                level = min(map(self._had, others), default=0.0)
                self._seconds[name] = max(self._seconds.get(name, 0.0), level)
                self._waiting[name] = None
            if not self._changed.wait_for(lambda: self._holder is None and self._next() == name, timeout_s):
                return False
            del self._waiting[name]
            self._holder, self._since = name, (self._clock(), time.process_time())
            return True

    def holds(self, name: str) -> bool:
        """Return ``True`` if it has the turn."""
        with self._changed:
            return self._holder == name

    def wanted(self, name: str) -> bool:
        """Return ``True`` if it has the turn, and another run waits that has not had more time."""
        with self._changed:
            return self._holder == name and any(self._had(other) <= self._had(name) for other in self._waiting)

    def give_up(self, name: str) -> None:
        """Pass the turn to another caller, if this caller has it."""
        with self._changed:
            if self._holder != name:
                return
            self._seconds[name] = self._had(name)
            self._cpu_seconds[name] = self._cpu(name)
            self._holder = None
            self._changed.notify_all()

    def leave(self, name: str) -> None:
        """Take part no longer."""
        self.give_up(name)
        with self._changed:
            self._waiting.pop(name, None)
            self._seconds.pop(name, None)
            self._cpu_seconds.pop(name, None)
            self._changed.notify_all()

    def cpu_seconds(self, name: str) -> float:
        """Return the CPU seconds of the process in the turns of one caller."""
        with self._changed:
            return self._cpu(name)

    def call(self, function: Callable[[], ResultT]) -> ResultT:
        """Call a function in the thread that works, and give its result or raise its error; in a turn alone."""
        future: Future[ResultT] = Future()
        self._calls.put((future, function))
        return future.result()

    def work(self) -> None:
        """Call the functions of those that have the turn, until :meth:`stop`; raises the error that it is given."""
        while (call := self._calls.get()) is not None:
            if isinstance(call, BaseException):
                raise call
            future, function = call
            try:
                result = function()
            except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits for it
                future.set_exception(error)
            else:
                future.set_result(result)

    def stop(self, error: BaseException | None = None) -> None:
        """End :meth:`work` once it has done what it was given before, with an error if there is one."""
        self._calls.put(error)

    def _next(self) -> str:
        return min(self._waiting, key=lambda name: self._seconds[name])

    def _had(self, name: str) -> float:
        return self._seconds[name] + (self._clock() - self._since[0] if name == self._holder else 0.0)

    def _cpu(self, name: str) -> float:
        running = time.process_time() - self._since[1] if name == self._holder else 0.0
        return self._cpu_seconds.get(name, 0.0) + running
