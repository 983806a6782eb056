"""Driver side of front-end processes: forwards their requests to a router, and keeps their counts."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from udfs.packing import StateError
from udfs.rpc import RefusedError
from udfs.serving import ModelFailedError, OverloadedError, RequestError, ServerStoppedError
from udfs.serving._outbox import Outbox
from udfs.serving.http._forwarding import (
    FORWARDING,
    LARGEST_BYTES,
    Arrays,
    Counted,
    Forward,
    Forwarded,
    Gather,
    Gathered,
    Reply,
    Watch,
    Watched,
)
from udfs.serving.http._monitor import Monitor
from udfs.serving.http._traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

    from udfs.rpc import Request
    from udfs.serving import Router, ServedModel
    from udfs.serving.http._forwarding import Ask
    from udfs.serving.http._prometheus import Gauge

__all__ = ["RouterService"]

_LOG = logging.getLogger(__name__)

# Seconds after which a front end without replies gets an empty one.
_POLL_S = 0.5

_NOTHING = Arrays({}, ())


class _FrontEnd:
    """State of a front end at the driver."""

    def __init__(self) -> None:
        self.outbox: Outbox[Reply] = Outbox()
        self.futures: dict[int, Future[Any]] = {}
        self.in_flight: Counter[tuple[str, str]] = Counter()
        self.table = 0


class RouterService:
    """Request handler for the front-end processes of a router. :class:`udfs.rpc.Endpoint` calls :meth:`answer`."""

    protocol = FORWARDING

    def __init__(self, router: Router, gauges: Callable[[], Iterable[Gauge]] | None = None) -> None:
        self._router = router
        self._traffic = Traffic()
        self._monitor = Monitor(router, self._traffic, gauges)
        self._changed = threading.Condition()
        self._front_ends: dict[str, _FrontEnd] = {}
        self._models: tuple[ServedModel, ...] = ()
        self._ready = False
        self._table = 0

    def admit(self, name: str) -> None:
        """Answer a front end of this name from now on."""
        with self._changed:
            self._front_ends[name] = _FrontEnd()

    def lost(self, name: str) -> None:
        """Remove a front end; its requests are cancelled and counted as disconnected."""
        with self._changed:
            front_end = self._front_ends.pop(name, None)
            self._changed.notify_all()
        if front_end is None:
            return
        for number in list(front_end.futures):
            _cancel(front_end, number)
        for (model, version), count in front_end.in_flight.items():
            for _ in range(count):
                self._traffic.ended(Counted(model, version, "disconnected", 0.0), "disconnected", 0.0)

    def refresh(self, timeout_s: float) -> bool:
        """Wait until every front end knows the current models; return whether all do."""
        with self._changed:
            self._renew()
            table = self._table
            for front_end in self._front_ends.values():
                front_end.outbox.wake()
            return self._changed.wait_for(
                lambda: all(front_end.table >= table for front_end in self._front_ends.values()), timeout_s
            )

    def answer(self, request: Request[Any]) -> Any:
        """Handle a request of :data:`FORWARDING`."""
        if isinstance(request, Gather):
            return self._gather(request)
        if isinstance(request, Forward):
            return self._forward(request)
        assert isinstance(request, Watch)
        return self._watch(request.what)

    def _front_end(self, name: str) -> _FrontEnd:
        front_end = self._front_ends.get(name)
        if front_end is None:
            raise RefusedError(f"{name!r} is not a front end of this server.")
        return front_end

    def _gather(self, request: Gather) -> Gathered:
        front_end = self._front_end(request.front_end)
        with self._changed:
            front_end.table = request.table
            self._changed.notify_all()
        # The first call returns at once: it asks for the list of models.
        replies, last = front_end.outbox.take(request.after, _POLL_S if request.table else 0.0)
        with self._changed:
            self._renew()
            models = None if self._table == request.table else self._models
            return Gathered(replies, last, self._table, models, self._ready)

    def _renew(self) -> None:
        models, ready = tuple(self._router.models), self._router.ready
        if not self._table or (models, ready) != (self._models, self._ready):
            self._models, self._ready = models, ready
            self._table += 1

    def _forward(self, request: Forward) -> Forwarded:
        front_end = self._front_end(request.front_end)
        for reason in request.refused:
            self._traffic.refused(reason)
        for counted in request.counted:
            key = counted.name, counted.version
            if counted.result:
                front_end.in_flight[key] -= 1
                self._traffic.ended(counted, counted.result, counted.seconds)
            else:
                front_end.in_flight[key] += 1
                self._traffic.began(counted)
        for ask in request.asks:
            self._submit(front_end, ask)
        for number in request.cancelled:
            _cancel(front_end, number)
        return Forwarded()

    def _submit(self, front_end: _FrontEnd, ask: Ask) -> None:
        try:
            future = self._router.submit(ask.model, ask.inputs.read(), version=ask.version, timeout_ms=ask.remaining_ms)
        except Exception as error:  # noqa: BLE001 - every error is sent to the front end
            front_end.outbox.put([_failed(ask.number, error)])
            return
        front_end.futures[ask.number] = future
        future.add_done_callback(lambda done: _reply(front_end, ask.number, done))

    def _watch(self, what: str) -> Watched:
        if what not in {"status", "metrics"}:
            raise RefusedError(f"A front end must ask for 'status' or 'metrics', got {what!r}.")
        response = self._monitor.status() if what == "status" else self._monitor.metrics()
        return Watched(response.status_code, response.headers["content-type"], bytes(response.body).decode())


def _cancel(front_end: _FrontEnd, number: int) -> None:
    future = front_end.futures.pop(number, None)
    if future is not None:
        future.cancel()


def _reply(front_end: _FrontEnd, number: int, done: Future[Any]) -> None:
    if front_end.futures.pop(number, None) is None:
        return  # its client has disconnected
    error = ServerStoppedError("The server cancelled the request.") if done.cancelled() else done.exception()
    front_end.outbox.put([_answered(number, done.result()) if error is None else _failed(number, error)])


def _answered(number: int, outputs: Any) -> Reply:
    try:
        arrays = Arrays.encode(dict(outputs))
    except Exception as error:  # noqa: BLE001 - whatever a router returned; the client must not wait
        return _failed(number, error)
    if arrays.nbytes > LARGEST_BYTES:
        return _failed(
            number, StateError(f"The outputs must have at most {LARGEST_BYTES:,} bytes, got {arrays.nbytes:,}.")
        )
    return Reply(number, "", "", 0.0, arrays)


def _failed(number: int, error: BaseException) -> Reply:
    if isinstance(error, RequestError) and not isinstance(error, ModelFailedError):
        after = error.retry_after_s if isinstance(error, OverloadedError) else 0.0
        return Reply(number, type(error).__name__, str(error), after, _NOTHING)
    # Messages of a model may contain anything, so they stay in the driver's log.
    _LOG.error("a request failed", exc_info=error)
    kind = ModelFailedError if isinstance(error, ModelFailedError) else RequestError
    return Reply(number, kind.__name__, "The driver's log has the error.", 0.0, _NOTHING)
