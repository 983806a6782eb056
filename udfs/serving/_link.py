"""Connections of the router to one backend: one stream sends rows, another collects answers."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from udfs.node import SupervisedThread
from udfs.rpc import Caller, CallError, RefusedError
from udfs.serving._message_size import fill_message
from udfs.serving._messages import SERVING, Adopt, Collect, Stop, Submit, Unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.rpc import Credentials
    from udfs.serving._messages import Answer, Placed, Results
    from udfs.serving._pending_requests import Pending

__all__ = ["Link", "LinkOwner"]

_LOG = logging.getLogger(__name__)

# Seconds of silence after which a backend counts as lost.
_SILENCE_S = 6.0

_SUBMIT_S = 10.0
_STOP_S = 3.0


class LinkOwner(Protocol):
    """Receiver of a link's events."""

    def answered(self, answers: Sequence[Answer]) -> None:
        """Handle the answers of a backend."""

    def unsent(self, number: int, error: Exception) -> None:
        """Handle a row that cannot be sent."""

    def lost(self, link: Link, why: str) -> None:
        """Handle the loss of a backend; called once."""


class Link:
    """Connection of the router to one backend. Rows queued while a message travels go with the next one.

    Attributes
    ----------
    placed : dict of str to Placed
        Groups that the backend has open.
    cold : dict of str to str
        Groups among them whose warm-up failed, with the error.
    """

    def __init__(self, name: str, location: str, credentials: Credentials, owner: LinkOwner) -> None:
        self.name = name
        self.placed: dict[str, Placed] = {}
        self.cold: dict[str, str] = {}
        self.results: Results | None = None
        self.lost_rows = 0  # rows that the backend had when it was lost; 0 again once they are noticed
        self._caller = Caller(location, credentials, SERVING)
        self._owner = owner
        self._changed = threading.Condition()
        self._units: list[Pending] = []
        self._cancelled: list[int] = []
        self._closed = False
        self._lost = False
        self._opening = False
        self._threads = [
            SupervisedThread(self._send, f"to {name}", self._fail),
            SupervisedThread(self._collect, f"from {name}", self._fail),
        ]

    @property
    def alive(self) -> bool:
        """True if the link is neither lost nor closed."""
        return not (self._lost or self._closed)

    @property
    def unsent(self) -> set[int]:
        """Numbers of the rows that were not sent yet."""
        with self._changed:
            return {unit.number for unit in self._units}

    @property
    def running_ms(self) -> float:
        """Milliseconds that the backend's batch has run for, as last reported."""
        return 0.0 if self.results is None else self.results.running_ms

    def start(self) -> None:
        """Start the streams."""
        for thread in self._threads:
            thread.start()

    def put(self, unit: Pending) -> None:
        """Queue a row for the next message."""
        with self._changed:
            self._units.append(unit)
            self._changed.notify_all()

    def cancel(self, number: int) -> None:
        """Cancel a row on the backend."""
        with self._changed:
            self._cancelled.append(number)
            self._changed.notify_all()

    def adopt(self, placements: Sequence[Placed], timeout_s: float) -> dict[str, str]:
        """Make the backend serve exactly these groups; return the error of each group that could not be opened.

        Raises
        ------
        CallError, RefusedError
            The backend is lost.
        """
        self._opening = True
        try:
            adopted = self._caller.call(Adopt(tuple(placements)), timeout_s=timeout_s)
        finally:
            self._opening = False
        self.placed = {placed.group: placed for placed in placements if placed.group not in adopted.failures}
        self.cold = adopted.cold
        return adopted.failures

    def stop(self) -> None:
        """Stop the backend and close the streams."""
        with suppress(CallError, RefusedError):
            self._caller.call(Stop(), timeout_s=_STOP_S)
        self.close()

    def close(self) -> None:
        """Close the streams."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._caller.close()

    def _send(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._units or self._cancelled or not self.alive)
                if not self.alive:
                    return
                batch = fill_message(self._units)
                del self._units[: len(batch)]
                cancelled, self._cancelled = tuple(self._cancelled), []
            units = _units(batch, time.monotonic())
            try:
                self._submit(units, cancelled)
            except (CallError, RefusedError) as error:
                self._lose(str(error))
                return

    def _submit(self, units: tuple[Unit, ...], cancelled: tuple[int, ...]) -> None:
        """Send rows; a row that cannot be sent fails alone."""
        try:
            self._caller.call(Submit(units, cancelled), timeout_s=_SUBMIT_S)
        except (CallError, RefusedError):
            raise
        except Exception as error:
            sendable = tuple(unit for unit in units if self._is_sendable(unit))
            if len(sendable) == len(units):
                raise
            _LOG.warning("%d rows cannot be sent to a backend: %s", len(units) - len(sendable), error)
            self._caller.call(Submit(sendable, cancelled), timeout_s=_SUBMIT_S)

    def _is_sendable(self, unit: Unit) -> bool:
        try:
            SERVING.encode(Submit((unit,), ()))
        except Exception as error:  # noqa: BLE001 - its request ends with this error
            self._owner.unsent(unit.number, error)
            return False
        return True

    def _collect(self) -> None:
        after, check = 0, False
        while self.alive:
            try:
                results = self._caller.call(Collect(after, check), timeout_s=_SILENCE_S)
            except (CallError, RefusedError) as error:
                # A process that imports a framework or reads weights may be silent for long. The connections of a lost
                # process are closed.
                if self._opening and isinstance(error.__cause__, TimeoutError):
                    continue
                if not (check or isinstance(error.__cause__, OSError)):
                    # The backend is there, and an answer cannot be sent or read.
                    check = True
                    continue
                self._lose(str(error))
                return
            after, check = results.last, False
            self.results = results
            if results.answers:
                self._owner.answered(results.answers)

    def _fail(self, error: BaseException) -> None:
        self._lose(f"a thread of its connection failed: {type(error).__name__}: {error}")

    def _lose(self, why: str) -> None:
        with self._changed:
            if not self.alive:
                return
            self._lost = True
            self._changed.notify_all()
        self._caller.close()
        self._owner.lost(self, why)


def _units(batch: Sequence[Pending], now: float) -> tuple[Unit, ...]:
    """Describe rows for a message; rows of the same content and group send it once, with the first of them."""
    units: list[Unit] = []
    sent: set[tuple[str, str]] = set()
    for row in batch:
        if row.deadline <= now:
            continue
        key = "" if row.suspect else row.key
        inputs = {} if (row.group, key) in sent else dict(row.inputs)
        if key:
            sent.add((row.group, key))
        left = 1000 * (row.deadline - now)
        units.append(Unit(row.number, row.session, row.group, left, key, inputs, alone=row.suspect))
    return tuple(units)
