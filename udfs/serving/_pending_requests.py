"""Waiting requests: each is answered once all its rows are."""

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
"""Seconds after its deadline in which an answer is still delivered."""


class Joined:
    """Future of a request, and the answers to its rows so far; any thread may call every method.

    Parameters
    ----------
    rows : int
        Number of rows.
    forget : callable
        Called when the request is settled before all its rows are.

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
        """Add the answer to a row; the last one settles the request."""
        with self._lock:
            if self._answers[row] is not None:
                return
            self._answers[row] = outputs
            self._missing -= 1
            complete = not self._missing
        if complete:
            answers = [answer for answer in self._answers if answer is not None]
            with suppress(InvalidStateError):  # cancelled meanwhile
                try:
                    self.future.set_result(
                        {name: np.stack([row_outputs[name] for row_outputs in answers]) for name in answers[0]}
                    )
                except (ValueError, KeyError) as error:
                    why = f"The rows of the request have answers of different shapes: {error}."
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
    """A row without an answer."""

    number: int
    session: str
    group: str
    deadline: float  # deadline in seconds of this process's monotonic clock
    inputs: Mapping[str, NDArray[Any]]
    key: str
    row: int  # place in its request
    joined: Joined
    link: str = ""  # backend that has the row
    routed: float = 0.0  # time when it was sent to this backend, in seconds of the monotonic clock
    attempts: int = 0  # number of backends that had it
    version: str = ""  # version of the model
    pinned: bool = False  # True if its caller asked for this version
    suspect: bool = False  # True if a backend was lost that had it: it runs in a batch of its own
    nbytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.nbytes = sum(array.nbytes for array in self.inputs.values())
