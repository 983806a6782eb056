"""A request for an application, which ends once: with its rows' answers, an error, or its caller's leaving."""

from __future__ import annotations

import threading
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.serving import ModelFailedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.serving import RequestError
    from vista_spark.serving._live_app import LiveApp

    Outputs = Mapping[str, NDArray[Any]]

__all__ = ["AppRequest"]


class AppRequest:
    """A request for an application: rows that are answered each by a run of its code."""

    def __init__(self, live: LiveApp, rows: Sequence[Mapping[str, NDArray[Any]]], deadline: float) -> None:
        self.live, self.rows, self.deadline = live, rows, deadline
        self.future: Future[Outputs] = Future()
        self._lock = threading.Lock()
        self._answers: dict[int, Outputs] = {}
        self._calls: list[Future[Any]] = []

    @property
    def missing(self) -> int:
        """Rows without an answer so far."""
        return len(self.rows) - len(self._answers)

    def answer(self, place: int, outputs: Outputs) -> None:
        """Take the answer to a row; the last one settles the request."""
        with self._lock:
            self._answers[place] = outputs
            if self.missing:
                return None
        try:
            found = _stacked([self._answers[at] for at in range(len(self.rows))])
        except ValueError as error:
            name = self.live.deployed.served.name
            return self.fail(ModelFailedError(f"{name} gave rows that are no batch ({error}): ask for one at a time"))
        with suppress(InvalidStateError):
            self.future.set_result(found)
        return None

    def fail(self, error: RequestError) -> None:
        """End the request with an error; the first one counts."""
        with suppress(InvalidStateError):
            self.future.set_exception(error)

    def called(self, call: Future[Any]) -> None:
        """Note a call, which ends with the request."""
        with self._lock:
            self._calls.append(call)
        if self.future.done():
            call.cancel()

    def cancel_calls(self) -> None:
        """Have nothing computed that nobody waits for any more."""
        with self._lock:
            calls = list(self._calls)
        for call in calls:
            call.cancel()


def _stacked(answers: Sequence[Outputs]) -> dict[str, NDArray[Any]]:
    return {name: np.stack([answer[name] for answer in answers]) for name in answers[0]}
