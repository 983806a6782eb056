"""Requests that wait for answers: each is as many units as it has rows, and is answered once all of them are."""

from __future__ import annotations

import threading
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.serving._errors import ModelFailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from udfs.serving._errors import RequestError

    Outputs = Mapping[str, NDArray[Any]]

__all__ = ["GRACE_S", "Joined", "Pending"]

GRACE_S = 0.05
"""An answer may come a little after its deadline, and is welcome then; later nobody waits for it."""


class Joined:
    """The future of a request, and the answers to its rows so far. Every method may be called from any thread.

    Parameters
    ----------
    rows : int
    forget : callable
        Called once it is settled while some rows are not: nobody needs them any more.

    Examples
    --------
    >>> joined = Joined(2, lambda: None)
    >>> joined.answer(1, {"score": np.array([2.0])})
    >>> joined.answer(0, {"score": np.array([1.0])})
    >>> joined.future.result()["score"]
    array([[1.],
           [2.]])
    """

    def __init__(self, rows: int, forget: Callable[[], None]) -> None:
        self.future: Future[Outputs] = Future()
        self._lock = threading.Lock()
        self._answers: list[Outputs | None] = [None] * rows
        self._missing = rows
        self._forget = forget
        self.future.add_done_callback(self._done)

    def answer(self, row: int, outputs: Outputs) -> None:
        """Take the answer to a row; the last one settles the request."""
        with self._lock:
            if self._answers[row] is not None:
                return
            self._answers[row] = outputs
            self._missing -= 1
            complete = not self._missing
        if complete:
            answers = [answer for answer in self._answers if answer is not None]
            with suppress(InvalidStateError):  # it was cancelled
                try:
                    self.future.set_result({name: np.stack([one[name] for one in answers]) for name in answers[0]})
                except (ValueError, KeyError) as error:
                    why = f"its rows have answers of different shapes: {error}"
                    self.future.set_exception(ModelFailedError(why))

    def fail(self, error: RequestError) -> None:
        """Settle the request with an error."""
        with suppress(InvalidStateError):
            self.future.set_exception(error)

    def _done(self, _: Future[Outputs]) -> None:
        if self._missing or self.future.cancelled():
            self._forget()


@dataclass(slots=True, eq=False)
class Pending:
    """A unit that is not answered yet.

    Attributes
    ----------
    number : int
    session, group : str
    deadline : float
        By this process's monotonic clock, in seconds.
    inputs : mapping of str to array
    key : str
    row : int
        In its request.
    joined : Joined
    link : str
        Backend that has it.
    attempts : int
        Backends that had it.
    pinned : bool
        Whether its caller asked for this version.
    """

    number: int
    session: str
    group: str
    deadline: float
    inputs: Mapping[str, NDArray[Any]]
    key: str
    row: int
    joined: Joined
    link: str = ""
    attempts: int = 0
    pinned: bool = False
    nbytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.nbytes = sum(array.nbytes for array in self.inputs.values())
