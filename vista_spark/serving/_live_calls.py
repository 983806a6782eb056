"""Calls of an application that runs, each within its part of the request's deadline."""

from __future__ import annotations

import time
from concurrent.futures import Future
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from optimizer.serving import CallTrace
from udfs.serving import NoSuchModelError, TooLateError
from vista_spark.serving._call_answer import CallAnswer
from vista_spark.serving._record import batch_of_one, pass_on

if TYPE_CHECKING:
    from udfs.serving import LiveRouter, ServedModel
    from vista_spark.serving._app_request import AppRequest

__all__ = ["CURRENT", "LiveCalls", "RowCalls"]


class RowCalls:
    """The calls of one run of an application's code."""

    def __init__(self, request: AppRequest) -> None:
        self.request = request
        self.trace = CallTrace()

    def execute(self, router: LiveRouter, model: ServedModel, record: Any) -> Future[Any]:
        """Have a model answer within the part of the deadline that is the call's."""
        inputs = batch_of_one(record, model.inputs)
        left = 1000 * (self.request.deadline - time.monotonic())
        name = self.request.live.deployed.served.name
        if left <= 0:
            raise TooLateError(f"the deadline of {name} went by before it called {model.name}")
        number = self.trace.call(model.name)
        time_ms = self.request.live.time_ms(self.trace.nodes[number], left)
        asked = router.submit(model.name, inputs, timeout_ms=time_ms)
        answer = CallAnswer(lambda: self.trace.read(number))
        answer.add_done_callback(lambda done: asked.cancel() if done.cancelled() else None)
        asked.add_done_callback(lambda done: pass_on(done, answer))
        self.request.called(answer)
        return answer


CURRENT: ContextVar[RowCalls | None] = ContextVar("calls", default=None)


class LiveCalls:
    """The models of a running server, for the request whose thread asks."""

    def __init__(self, router: LiveRouter) -> None:
        self._router = router

    def execute(self, model: str, record: Any) -> Future[Any]:
        """Have a model answer; outside of a request, or in a thread of the application's own, within its SLO."""
        served = {one.name: one for one in self._router.models}.get(model)
        if served is None:
            raise NoSuchModelError(f"no model {model!r} is served any more")
        calls = CURRENT.get()
        if calls is not None:
            return calls.execute(self._router, served, record)
        asked = self._router.submit(model, batch_of_one(record, served.inputs))
        answer: Future[Any] = Future()
        asked.add_done_callback(lambda done: pass_on(done, answer))
        return answer
