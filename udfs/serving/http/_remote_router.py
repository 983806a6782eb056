"""The driver's router, as a front end in another process sees it."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
from udfs.serving._fitting import fitting
from udfs.serving.http._forwarding import FORWARDING, LARGEST_BYTES, Arrays, Ask, Counted, Forward, Gather, Watch
from udfs.serving.http._models import find_model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.rpc import Credentials
    from udfs.serving.http._forwarding import Gathered, Reply, Watched

    Outputs = Mapping[str, NDArray[Any]]

__all__ = ["RemoteRouter"]

_LOG = logging.getLogger(__name__)

# A driver that says nothing for so long is gone; one whose process has ended has its connections closed.
_SILENCE_S = 30.0

# Counts travel with requests; those that are alone wait for some so long.
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
    """A :class:`udfs.serving.Router` in another process. Its list of models is the one that came with the last replies.

    Parameters
    ----------
    name : str
        Of this front end.
    location : str
        Of the endpoint that a :class:`RouterService` answers.
    credentials : Credentials
    over : callable
        Called if the driver is gone; in any thread, maybe more than once.

    Raises
    ------
    udfs.rpc.CallError, udfs.rpc.RefusedError
        It cannot be reached, or does not know this front end.
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
            threading.Thread(target=work, name=f"{what} the driver", daemon=True).start()

    @property
    def models(self) -> Sequence[ServedModel]:
        """All versions that are deployed."""
        return self._models

    @property
    def ready(self) -> bool:
        """Whether every deployed model has a backend, and the driver is there."""
        return self._ready and not self._closed

    def submit(
        self,
        name: str,
        inputs: Mapping[str, NDArray[Any]],
        *,
        version: str | None = None,
        timeout_ms: float | None = None,
    ) -> Future[Outputs]:
        """Have a model answer a request; see :meth:`udfs.serving.Router.submit`."""
        budget = find_model(self, name, version).budget_ms(version, timeout_ms)
        given = Arrays.of(dict(inputs))
        if given.nbytes > LARGEST_BYTES:
            raise BadRequestError(f"the inputs take {given.nbytes:,} bytes, and at most {LARGEST_BYTES:,} are taken")
        number, future = next(self._numbers), Future[Any]()
        with self._changed:
            if self._closed:
                raise ServerStoppedError("the server was stopped")
            self._futures[number] = future
            self._asked.append(_Waiting(number, name, version, time.monotonic() + budget / 1000, given))
            self._changed.notify()
        future.add_done_callback(lambda done: self._cancel(number) if done.cancelled() else None)
        return future

    def count(self, counted: Counted) -> None:
        """Tell the driver of a request that has come or has ended."""
        with self._changed:
            self._counted.append(counted)
            self._changed.notify()

    def refuse(self, reason: str) -> None:
        """Tell the driver of a request that was refused at the door."""
        with self._changed:
            self._refused.append(reason)
            self._changed.notify()

    def watch(self, what: str, timeout_s: float) -> Watched:
        """Ask for ``"status"`` or ``"metrics"``.

        Raises
        ------
        udfs.rpc.CallError, udfs.rpc.RefusedError
            The driver does not answer.
        """
        # What was counted here before is to be among it.
        self._forward(timeout_s)
        return self._caller.call(Watch(what), timeout_s=timeout_s)

    def close(self) -> None:
        """Tell what was counted, fail what waits, and end the connections."""
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
            except Exception as error:  # noqa: BLE001 - whatever it was, nobody would ever be answered
                self._lose(error)
                return

    def _forward(self, timeout_s: float) -> None:
        """Send what there is to be sent."""
        with self._sending:
            with self._changed:
                taken = fitting(self._asked)
                del self._asked[: len(taken)]
                cancelled, self._cancelled = tuple(self._cancelled), []
                counted, self._counted = tuple(self._counted), []
                refused, self._refused = tuple(self._refused), []
            now = time.monotonic()
            asks = tuple(
                Ask(one.number, one.model, one.version, 1000 * (one.deadline - now), one.inputs)
                for one in taken
                if one.deadline > now and one.number in self._futures
            )
            self._caller.call(Forward(self._name, asks, cancelled, counted, refused), timeout_s=timeout_s)

    @property
    def _urgent(self) -> bool:
        return bool(self._asked or self._cancelled or self._closed)

    def _collect(self) -> None:
        after = 0
        while not self._closed:
            try:
                gathered = self._gather(after)
                self._take(gathered)
            except Exception as error:  # noqa: BLE001 - as above
                self._lose(error)
                return
            after = gathered.last

    def _gather(self, after: int) -> Gathered:
        return self._caller.call(Gather(self._name, after, self._table), timeout_s=_SILENCE_S)

    def _take(self, gathered: Gathered) -> None:
        # The list before the replies: one of them may say that a model is gone.
        if gathered.models is not None:
            self._models = gathered.models
        self._table, self._ready = gathered.table, gathered.ready
        for reply in gathered.replies:
            future = self._futures.pop(reply.number, None)
            if future is None:
                continue
            with suppress(InvalidStateError):  # it was cancelled
                if reply.failure:
                    future.set_exception(_error(reply))
                else:
                    future.set_result(reply.outputs.read())

    def _lose(self, error: Exception) -> None:
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
                    future.set_exception(ServerStoppedError("the server was stopped while the request waited"))


def _error(reply: Reply) -> RequestError:
    if reply.failure == OverloadedError.__name__:
        return OverloadedError(reply.message, reply.retry_after_s)
    return _ERRORS.get(reply.failure, RequestError)(reply.message)
