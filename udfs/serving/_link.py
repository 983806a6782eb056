"""Connections of the router to one backend: one stream sends rows, another collects answers."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from udfs.rpc import Caller, CallError, RefusedError
from udfs.serving._message_size import fill_message
from udfs.serving._messages import SERVING, Adopt, Collect, Stop, Submit, Unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.rpc import Credentials
    from udfs.serving._messages import Answer, Placed, Results
    from udfs.serving._pending_requests import Pending

__all__ = ["Link", "LinkOwner"]

# Seconds of silence after which a backend counts as lost.
_SILENCE_S = 6.0

_SUBMIT_S = 10.0
_STOP_S = 3.0


class LinkOwner(Protocol):
    """Receiver of a link's events."""

    def answered(self, answers: Sequence[Answer]) -> None:
        """Handle the answers of a backend."""

    def lost(self, link: Link, why: str) -> None:
        """Handle the loss of a backend; called once."""


class Link:
    """Connection of the router to one backend. Rows queued while a message travels go with the next one."""

    def __init__(self, name: str, location: str, credentials: Credentials, owner: LinkOwner) -> None:
        self.name = name
        self.placed: dict[str, Placed] = {}
        self.results: Results | None = None
        self._caller = Caller(location, credentials, SERVING)
        self._owner = owner
        self._changed = threading.Condition()
        self._units: list[Pending] = []
        self._cancelled: list[int] = []
        self._closed = False
        self._lost = False
        self._opening = False
        self._threads = [
            threading.Thread(target=self._send, name=f"to {name}", daemon=True),
            threading.Thread(target=self._collect, name=f"from {name}", daemon=True),
        ]

    @property
    def alive(self) -> bool:
        """True if the link is neither lost nor closed."""
        return not (self._lost or self._closed)

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
            failures = self._caller.call(Adopt(tuple(placements)), timeout_s=timeout_s).failures
        finally:
            self._opening = False
        self.placed = {placed.group: placed for placed in placements if placed.group not in failures}
        return failures

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
            now = time.monotonic()
            units = tuple(
                Unit(unit.number, unit.session, unit.group, 1000 * (unit.deadline - now), unit.key, dict(unit.inputs))
                for unit in batch
                if unit.deadline > now
            )
            try:
                self._caller.call(Submit(units, cancelled), timeout_s=_SUBMIT_S)
            except (CallError, RefusedError) as error:
                self._lose(str(error))
                return

    def _collect(self) -> None:
        after = 0
        while self.alive:
            try:
                results = self._caller.call(Collect(after), timeout_s=_SILENCE_S)
            except (CallError, RefusedError) as error:
                # A process that imports a framework or reads weights may be silent for long. The connections of a lost
                # process are closed.
                if self._opening and isinstance(error.__cause__, TimeoutError):
                    continue
                self._lose(str(error))
                return
            after = results.last
            self.results = results
            if results.answers:
                self._owner.answered(results.answers)

    def _lose(self, why: str) -> None:
        with self._changed:
            if not self.alive:
                return
            self._lost = True
            self._changed.notify_all()
        self._caller.close()
        self._owner.lost(self, why)
