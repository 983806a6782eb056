"""Router of a front-end process, which forwards requests to the driver's router."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from udfs.node import SupervisedThread
from udfs.rpc import Caller, CallError, RefusedError
from udfs.serving import (
    BadRequestError,
    ModelFailedError,
    NoSuchModelError,
    OverloadedError,
    RequestError,
    ServedModel,
    ServerStoppedError,
    TooLateError,
)
from udfs.serving._message_size import fill_message
from udfs.serving.http._forwarding import FORWARDING, LARGEST_BYTES, Arrays, Ask, Counted, Forward, Gather, Watch
from udfs.serving.http._model_lookup import find_model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.rpc import Credentials
    from udfs.serving.http._forwarding import Gathered, Reply, Watched

    Outputs = Mapping[str, NDArray[Any]]

__all__ = ["RemoteRouter"]

_LOG = logging.getLogger(__name__)

# Seconds of silence after which the driver counts as lost; a driver whose process ends closes its connections.
_SILENCE_S = 30.0

# Seconds that counts wait for requests to travel with.
_COUNTS_S = 0.05

_CLOSE_S = 1.0

_ERRORS: dict[str, type[RequestError]] = {
    kind.__name__: kind
    for kind in (BadRequestError, ModelFailedError, NoSuchModelError, ServerStoppedError, TooLateError)
}


@dataclass(frozen=True, slots=True)
class _Waiting:
    number: int
    model: str
    version: str | None
    deadline: float
    inputs: Arrays

    @property
    def nbytes(self) -> int:
        return self.inputs.nbytes


class RemoteRouter:
    """A :class:`udfs.serving.Router` that forwards to the driver; its list of models came with the last replies.

    Parameters
    ----------
    name : str
        Name of this front end.
    location : str
        Location of the endpoint of a :class:`RouterService`.
    over : callable
        Called if the driver is lost; in any thread, possibly more than once.

    Raises
    ------
    udfs.rpc.CallError, udfs.rpc.RefusedError
        The driver cannot be reached, or does not know this front end.
    """

    def __init__(self, name: str, location: str, credentials: Credentials, over: Callable[[], None]) -> None:
        self._name = name
        self._caller = Caller(location, credentials, FORWARDING)
        self._over = over
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._numbers = itertools.count(1)
        self._futures: dict[int, Future[Outputs]] = {}
        self._asked: list[_Waiting] = []
        self._cancelled: list[int] = []
        self._counted: list[Counted] = []
        self._refused: list[str] = []
        self._closed = False
        self._models: tuple[ServedModel, ...] = ()
        self._table = 0
        self._ready = False
        self._take(self._gather(0))
        for work, what in ((self._send, "to"), (self._collect, "from")):
            SupervisedThread(work, f"{what} the driver", self._lose).start()

    @property
    def models(self) -> Sequence[ServedModel]:
        """Deployed models by version."""
        return self._models

    @property
    def ready(self) -> bool:
        """True if every deployed model has a backend, and the driver is connected."""
        return self._ready and not self._closed

    def submit(
        self,
        name: str,
        inputs: Mapping[str, NDArray[Any]],
        *,
        version: str | None = None,
        timeout_ms: float | None = None,
    ) -> Future[Outputs]:
        """Submit a request; see :meth:`udfs.serving.Router.submit`."""
        budget = find_model(self, name, version).budget_ms(version, timeout_ms)
        arrays = Arrays.encode(dict(inputs))
        if arrays.nbytes > LARGEST_BYTES:
            raise BadRequestError(f"The inputs must have at most {LARGEST_BYTES:,} bytes, got {arrays.nbytes:,}.")
        number, future = next(self._numbers), Future[Any]()
        with self._changed:
            if self._closed:
                raise ServerStoppedError("The server was stopped.")
            self._futures[number] = future
            self._asked.append(_Waiting(number, name, version, time.monotonic() + budget / 1000, arrays))
            self._changed.notify()
        future.add_done_callback(lambda done: self._cancel(number) if done.cancelled() else None)
        return future

    def count(self, counted: Counted) -> None:
        """Report the start or the end of a request to the driver."""
        with self._changed:
            self._counted.append(counted)
            self._changed.notify()

    def refuse(self, reason: str) -> None:
        """Report a refused request to the driver."""
        with self._changed:
            self._refused.append(reason)
            self._changed.notify()

    def watch(self, what: str, timeout_s: float) -> Watched:
        """Request ``"status"`` or ``"metrics"`` from the driver.

        Raises
        ------
        udfs.rpc.CallError, udfs.rpc.RefusedError
            The driver does not answer.
        """
        # Send earlier counts first, so that the response includes them.
        self._forward(timeout_s)
        return self._caller.call(Watch(what), timeout_s=timeout_s)

    def close(self) -> None:
        """Send the remaining counts, fail waiting requests, and close the connections."""
        with self._changed:
            closed, self._closed = self._closed, True
            self._changed.notify_all()
        if not closed:
            with suppress(CallError, RefusedError):
                self._forward(_CLOSE_S)
        self._caller.close()
        self._fail_all()

    def _cancel(self, number: int) -> None:
        with self._changed:
            if self._futures.pop(number, None) is not None:
                self._cancelled.append(number)
                self._changed.notify()

    def _send(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._urgent or self._counted or self._refused)
                if not self._urgent:
                    self._changed.wait_for(lambda: self._urgent, _COUNTS_S)
                if self._closed:
                    return
            try:
                self._forward(_SILENCE_S)
            except (CallError, RefusedError) as error:
                self._lose(error)
                return

    def _forward(self, timeout_s: float) -> None:
        """Send queued requests, cancellations and counts."""
        with self._sending:
            with self._changed:
                waiting = fill_message(self._asked)
                del self._asked[: len(waiting)]
                cancelled, self._cancelled = tuple(self._cancelled), []
                counted, self._counted = tuple(self._counted), []
                refused, self._refused = tuple(self._refused), []
            now = time.monotonic()
            asks = tuple(
                Ask(request.number, request.model, request.version, 1000 * (request.deadline - now), request.inputs)
                for request in waiting
                if request.deadline > now and request.number in self._futures
            )
            forward = Forward(self._name, asks, cancelled, counted, refused)
            try:
                self._caller.call(forward, timeout_s=timeout_s)
            except (CallError, RefusedError):
                raise
            except Exception:
                sendable = tuple(ask for ask in asks if self._is_sendable(ask))
                if len(sendable) == len(asks):
                    raise
                self._caller.call(replace(forward, asks=sendable), timeout_s=timeout_s)

    def _is_sendable(self, ask: Ask) -> bool:
        """Return whether a request can be sent; it fails if not."""
        try:
            FORWARDING.encode(Forward(self._name, (ask,), (), (), ()))
        except Exception as error:  # noqa: BLE001 - its request ends with this error
            future = self._futures.pop(ask.number, None)
            if future is not None:
                with suppress(InvalidStateError):
                    future.set_exception(RequestError(f"The request cannot be sent: {error}"))
            return False
        return True

    @property
    def _urgent(self) -> bool:
        return bool(self._asked or self._cancelled or self._closed)

    def _collect(self) -> None:
        after = 0
        while not self._closed:
            try:
                gathered = self._gather(after)
                self._take(gathered)
            except (CallError, RefusedError) as error:
                self._lose(error)
                return
            after = gathered.last

    def _gather(self, after: int) -> Gathered:
        return self._caller.call(Gather(self._name, after, self._table), timeout_s=_SILENCE_S)

    def _take(self, gathered: Gathered) -> None:
        # The list before the replies, which may report that a model is not deployed any more.
        if gathered.models is not None:
            self._models = gathered.models
        self._table, self._ready = gathered.table, gathered.ready
        for reply in gathered.replies:
            future = self._futures.pop(reply.number, None)
            if future is None:
                continue
            with suppress(InvalidStateError):  # cancelled meanwhile
                if reply.failure:
                    future.set_exception(_error(reply))
                    continue
                try:
                    outputs = reply.outputs.read()
                except Exception as error:  # noqa: BLE001 - the other replies are delivered
                    future.set_exception(RequestError(f"The answer cannot be read: {error}"))
                else:
                    future.set_result(outputs)

    def _lose(self, error: BaseException) -> None:
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
        unexpected = not isinstance(error, CallError | RefusedError)
        _LOG.warning("this front end ends: %s", error, exc_info=unexpected)
        self._caller.close()
        self._fail_all()
        self._over()

    def _fail_all(self) -> None:
        for number in list(self._futures):
            future = self._futures.pop(number, None)
            if future is not None:
                with suppress(InvalidStateError):
                    future.set_exception(ServerStoppedError("The server was stopped while the request waited."))


def _error(reply: Reply) -> RequestError:
    if reply.failure == OverloadedError.__name__:
        return OverloadedError(reply.message, reply.retry_after_s)
    return _ERRORS.get(reply.failure, RequestError)(reply.message)
