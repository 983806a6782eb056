"""Calls of an application that runs, each within its part of the request's deadline."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from optimizer.serving import CallTrace
from udfs.serving import NoSuchModelError, TooLateError
from vista_spark.serving._call_answer import CallAnswer
from vista_spark.serving._record import ask

if TYPE_CHECKING:
    from concurrent.futures import Future

    from udfs.serving import LiveRouter, ServedModel
    from vista_spark.serving._app_request import AppRequest

__all__ = ["LiveCalls", "RowCalls"]


class LiveCalls:
    """The models of a running server, each within its SLO: for threads of the application's own.

    Parameters
    ----------
    router : LiveRouter
    """

    def __init__(self, router: LiveRouter) -> None:
        self._router = router

    def execute(self, model: str, record: Any) -> Future[Any]:
        """Have a model answer."""
        return ask(self._router, _served(self._router, model), record)


class RowCalls:
    """The calls of one run of an application's code.

    Parameters
    ----------
    router : LiveRouter
    request : AppRequest

    Attributes
    ----------
    trace : CallTrace
    """

    def __init__(self, router: LiveRouter, request: AppRequest) -> None:
        self._router, self._request = router, request
        self.trace = CallTrace()

    def execute(self, model: str, record: Any) -> Future[Any]:
        """Have a model answer within the part of the deadline that is the call's."""
        served = _served(self._router, model)
        left = 1000 * (self._request.deadline - time.monotonic())
        if left <= 0:
            raise TooLateError(f"the deadline of {self._request.live.name} went by before it called {model}")
        number = self.trace.call(model)
        answer = CallAnswer(lambda: self.trace.read(number))
        time_ms = self._request.live.time_ms(self.trace.nodes[number], left)
        ask(self._router, served, record, timeout_ms=time_ms, answer=answer)
        self._request.called(answer)
        return answer


def _served(router: LiveRouter, model: str) -> ServedModel:
    for served in router.models:
        if served.name == model:
            return served
    raise NoSuchModelError(f"no model {model!r} is served any more")
