"""Server-sent events from a log that can be read again from any position."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from udfs.web._errors import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from fastapi import Request

__all__ = ["Changes", "EventSource", "EventStream", "StreamEvent", "Subscription"]

HEARTBEAT_S = 15.0
_BATCH = 500


@dataclass(frozen=True)
class StreamEvent:
    r"""Event of a log.

    Parameters
    ----------
    id : int
        Position in the log; later events have larger ones.
    data : dict
        JSON document.
    name : str, optional
        Name that ``addEventListener`` takes. Default ``"message"``.

    Examples
    --------
    >>> StreamEvent(7, {"epoch": 2}).text
    'id: 7\nevent: message\ndata: {"epoch": 2}\n\n'
    """

    id: int
    data: dict[str, Any]
    name: str = "message"

    @property
    def text(self) -> str:
        """Text of the event in a stream."""
        # Browsers cannot read NaN: it becomes null, so that a diverged model does not end the stream.
        data = json.loads(json.dumps(self.data), parse_constant=lambda _: None)
        return f"id: {self.id}\nevent: {self.name}\ndata: {json.dumps(data)}\n\n"


class Subscription:
    """Wait of a coroutine for the next change."""

    def __init__(self, changes: Changes) -> None:
        self._changes, self._event = changes, asyncio.Event()
        self.loop = asyncio.get_running_loop()

    @property
    def is_closed(self) -> bool:
        """True if the server stops."""
        return self._changes.is_closed

    def clear(self) -> None:
        """Forget changes so far. Call it before the log is read, so that no change between the two is missed."""
        self._event.clear()

    def wake(self) -> None:
        """End the wait; called in the loop of the coroutine."""
        self._event.set()

    async def wait(self, seconds: float) -> bool:
        """Wait for a change since :meth:`clear`; return False if there was none."""
        if self.is_closed:
            return True
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return False
        return True


class Changes:
    """Notifier of coroutines that wait for a change.

    Examples
    --------
    >>> import asyncio
    >>> async def example():
    ...     changes = Changes()
    ...     with changes.subscribe() as subscription:
    ...         changes.notify()
    ...         return await subscription.wait(20)
    >>> asyncio.run(example())
    True
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscriptions: set[Subscription] = set()
        self.is_closed = False

    def notify(self) -> None:
        """Wake all that wait; callable from any thread."""
        with self._lock:
            for subscription in self._subscriptions:
                with suppress(RuntimeError):  # the loop was closed: the server ended without its streams
                    subscription.loop.call_soon_threadsafe(subscription.wake)

    def close(self) -> None:
        """End all waits, now and later: the server stops."""
        self.is_closed = True
        self.notify()

    @contextmanager
    def subscribe(self) -> Iterator[Subscription]:
        """Return a wait for changes, within a running event loop."""
        subscription = Subscription(self)
        with self._lock:
            self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            with self._lock:
                self._subscriptions.discard(subscription)


@dataclass(frozen=True)
class EventSource:
    """Log of events, and the notifier of its changes.

    Parameters
    ----------
    since : callable
        ``since(id, limit)`` returns at most ``limit`` events after a position, in order. It runs in a thread.
    changes : Changes
        Notified after each new event.

    Examples
    --------
    >>> log = [StreamEvent(1, {}), StreamEvent(2, {})]
    >>> EventSource(lambda id, limit: [event for event in log if event.id > id][:limit], Changes()).since(1, 10)
    [StreamEvent(id=2, data={}, name='message')]
    """

    since: Callable[[int, int], list[StreamEvent]]
    changes: Changes


class EventStream(StreamingResponse):
    """Response with the events of a log, until the client or the server closes it, or the session ends.

    ``Last-Event-ID``, or ``since`` in the query, is the position after which the events start; 0 by default. A comment
    every 15 seconds keeps proxies from closing the connection.

    Parameters
    ----------
    request : fastapi.Request
        Request for the events.
    source : EventSource
        Log.

    Raises
    ------
    ApiError
        Status 422 for a position that is not a number.

    Examples
    --------
    >>> from fastapi import APIRouter, Request
    >>> router, source = APIRouter(), EventSource(lambda id, limit: [], Changes())
    >>> @router.get("/events")
    ... async def events(request: Request) -> EventStream:
    ...     return EventStream(request, source)
    """

    def __init__(self, request: Request, source: EventSource) -> None:
        position = request.headers.get("last-event-id") or request.query_params.get("since") or "0"
        if not (position.isascii() and position.isdigit()):
            raise ApiError(422, "since", f"Last-Event-ID must be the id of an event, got {position[:50]!r}.")
        # nginx buffers responses unless told otherwise.
        headers = {"X-Accel-Buffering": "no"}
        super().__init__(_stream(request, source, int(position)), media_type="text/event-stream", headers=headers)


async def _stream(request: Request, source: EventSource, position: int) -> AsyncIterator[str]:
    checked = time.monotonic()
    with source.changes.subscribe() as subscription:
        yield ": open\n\n"  # an answer before the first event, so that the browser knows the connection is open
        while not subscription.is_closed:
            if time.monotonic() - checked > HEARTBEAT_S:
                checked = time.monotonic()
                if await request.state.authenticate() is None:
                    return
            subscription.clear()
            events = await run_in_threadpool(source.since, position, _BATCH)
            if events:
                position = events[-1].id
                yield "".join(event.text for event in events)
            elif not await subscription.wait(HEARTBEAT_S):
                yield ": heartbeat\n\n"
