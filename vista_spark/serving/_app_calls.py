"""Requests of deployed applications: their calls to models, and the time that each call has."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optimizer.serving import CallTrace, InfeasibleError, resplit
from udfs.serving import Joined, NoSuchModelError, TooLateError
from vista_spark.serving._app import CallAnswer
from vista_spark.serving._single_record import ask

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    from udfs.serving import LiveRouter, ServedModel
    from vista_spark.serving._deployed_app import DeployedApp

__all__ = ["AppRequest", "LiveApp", "LiveCalls", "RowCalls"]

_LOG = logging.getLogger(__name__)

# Threads of an application, each of which runs a request and mostly waits for models. They start as needed.
_THREADS = 64

# Weight of the requests before an epoch, relative to those of the epoch.
_FADE = 0.5


@dataclass(frozen=True, slots=True)
class _Times:
    """Budgets and reserves of an application's calls. Requests read them while `follow` replaces the whole object."""

    name: Callable[[tuple[str, int]], str]
    budgets: Mapping[str, float]
    reserves: Mapping[str, float]

    @classmethod
    def from_app(cls, deployed: DeployedApp) -> _Times:
        return cls(deployed.counts.name, deployed.split.budgets, deployed.split.reserves)


class LiveApp:
    """A deployed application whose budgets follow its traffic.

    Attributes
    ----------
    threads : ThreadPoolExecutor
        Threads that run its requests: one that hangs keeps no thread of another application.
    waiting : int
        Requests that wait for a thread.
    """

    def __init__(self, deployed: DeployedApp) -> None:
        self.deployed = deployed
        self.threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"application {self.name}")
        self.waiting = 0
        self._lock = threading.Lock()
        self._traces: list[CallTrace] = []
        self._times = _Times.from_app(deployed)

    @property
    def name(self) -> str:
        """Name of the application."""
        return self.deployed.served.name

    def count(self, trace: CallTrace) -> None:
        """Record the calls of an answered request."""
        with self._lock:
            self._traces.append(trace)

    def time_ms(self, node: tuple[str, int], left_ms: float) -> float:
        """Return the time of a call: the time left without the reserve of its successors, at least its budget."""
        times = self._times
        name = times.name(node)
        budget = min(times.budgets.get(name, left_ms), left_ms)
        return max(budget, left_ms - times.reserves.get(name, 0.0))

    def follow(self, seconds: float) -> dict[str, float]:
        """Split the deadline by the calls so far, where that pays; return the budget of each session."""
        with self._lock:
            traces, self._traces = self._traces, []
        deployed = self.deployed
        if traces:
            counts = deployed.counts.faded(_FADE)
            for trace in traces:
                counts.add(trace)
            app = deployed.app
            try:
                query = counts.query(app.name, deployed.profiles, app.slo_ms, len(traces) / seconds)
                deployed.split = resplit(deployed.split, query)
                deployed.counts = counts
            except InfeasibleError as error:
                _LOG.warning("the budgets of application %s stay: %s", app.name, error)
            self._times = _Times.from_app(deployed)
        return deployed.budgets


class AppRequest:
    """A request for an application; each of its rows is answered by one run of the application's code.

    ``deadline`` is in seconds of this process's monotonic clock. Open calls are cancelled when ``joined`` ends.
    """

    def __init__(self, live: LiveApp, rows: int, deadline: float) -> None:
        self.live, self.deadline = live, deadline
        self._lock = threading.Lock()
        self._calls: list[Future[Any]] = []
        self.joined = Joined(rows, lambda: None)
        # An answered request cancels its calls too: a result that was not read is not needed.
        self.joined.future.add_done_callback(lambda _: self._cancel_calls())

    def add_call(self, call: Future[Any]) -> None:
        """Register a call, to be cancelled when the request ends."""
        with self._lock:
            self._calls.append(call)
        if self.joined.future.done():
            call.cancel()

    def _cancel_calls(self) -> None:
        with self._lock:
            calls = list(self._calls)
        for call in calls:
            call.cancel()


class LiveCalls:
    """Calls from threads that the application starts itself, each within the SLO of its model."""

    def __init__(self, router: LiveRouter) -> None:
        self._router = router

    def execute(self, model: str, record: Any) -> Future[Any]:
        """Ask a model about one record."""
        return ask(self._router, _served(self._router, model), record)


class RowCalls:
    """Calls of one run of an application's code, recorded in `trace`."""

    def __init__(self, router: LiveRouter, request: AppRequest) -> None:
        self._router, self._request = router, request
        self.trace = CallTrace()

    def execute(self, model: str, record: Any) -> Future[Any]:
        """Ask a model about one record, within the call's part of the deadline."""
        served = _served(self._router, model)
        left = 1000 * (self._request.deadline - time.monotonic())
        if left <= 0:
            raise TooLateError(f"The deadline of {self._request.live.name} went by before it called {model}.")
        number = self.trace.call(model)
        answer = CallAnswer(lambda: self.trace.read(number))
        time_ms = self._request.live.time_ms(self.trace.nodes[number], left)
        ask(self._router, served, record, timeout_ms=time_ms, answer=answer)
        self._request.add_call(answer)
        return answer


def _served(router: LiveRouter, model: str) -> ServedModel:
    for served in router.models:
        if served.name == model:
            return served
    raise NoSuchModelError(f"Model {model!r} is not served any more.")
