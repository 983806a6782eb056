"""The applications of a running server: their requests, each with calls of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from optimizer.errors import nearest
from udfs.serving import (
    GRACE_S,
    Deadlines,
    ModelFailedError,
    NoSuchModelError,
    OverloadedError,
    RequestError,
    ServerStoppedError,
    TooLateError,
)
from vista_spark.serving._app import CURRENT
from vista_spark.serving._app_request import AppRequest
from vista_spark.serving._deployed_app import outputs_of, request_of
from vista_spark.serving._live_app import LiveApp
from vista_spark.serving._live_calls import LiveCalls, RowCalls

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from optimizer.serving import QuerySplit
    from udfs.serving import LiveRouter, ServedModel
    from vista_spark.serving._deployed_app import DeployedApp

    Outputs = Mapping[str, NDArray[Any]]

__all__ = ["Applications"]

_LOG = logging.getLogger(__name__)

# Requests that run at a time, most of them waiting for models, and those that wait for one of these threads.
_THREADS = 64
_WAITING = 512


class Applications:
    """Answers requests for applications, by calls to a router; every method may be called from any thread.

    Parameters
    ----------
    router : LiveRouter
    apps : sequence of DeployedApp

    Attributes
    ----------
    ended : Counter
        Rows by application and how they ended: ``"answered"``, ``"cancelled"``, or the name of an error.
    """

    def __init__(self, router: LiveRouter, apps: Sequence[DeployedApp]) -> None:
        self._router = router
        self._live = {one.served.name: LiveApp(one) for one in apps}
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="applications")
        self._lock = threading.Lock()
        self._waiting = 0
        self._unsettled: set[AppRequest] = set()
        self._deadlines = Deadlines[AppRequest](_too_late, lambda request: request.joined.future.done())
        self._stopped = False
        self.ended: Counter[tuple[str, str]] = Counter()
        for one in apps:
            one.app.calls = LiveCalls(router)

    def add(self, app: DeployedApp) -> None:
        """Take requests for another application, or another version of one; those before end as they began."""
        app.app.calls = LiveCalls(self._router)
        # Read by others meanwhile.
        self._live = {**self._live, app.served.name: LiveApp(app)}

    @property
    def models(self) -> tuple[ServedModel, ...]:
        """The applications as callers see them."""
        return tuple(live.deployed.served for live in self._live.values())

    def has(self, name: str) -> bool:
        """Whether an application has this name."""
        return name in self._live

    def split(self, name: str) -> QuerySplit:
        """Give an application's calls and budgets as the traffic has made them."""
        if name not in self._live:
            raise NoSuchModelError(f"no application {name!r} is served{nearest(name, self._live)}")
        return self._live[name].deployed.split

    def submit(
        self, name: str, inputs: Mapping[str, Any], *, version: str | None = None, timeout_ms: float | None = None
    ) -> Future[Outputs]:
        """Have an application answer a request of one or more rows; as :meth:`udfs.serving.Router.submit`."""
        live = self._live[name]
        budget = live.deployed.served.budget_ms(version, timeout_ms)
        rows = live.deployed.admission.rows(inputs)
        request = AppRequest(live, len(rows), time.monotonic() + budget / 1000)
        joined = request.joined
        joined.future.add_done_callback(lambda done: self._count(name, len(rows), done))
        with self._lock:
            full = self._waiting >= _WAITING
            if not self._stopped and not full:
                self._waiting += len(rows)
                self._unsettled.add(request)
        if self._stopped:
            joined.fail(ServerStoppedError("the server was stopped"))
        elif full:
            joined.fail(OverloadedError(f"{_WAITING} requests wait for applications already"))
        else:
            joined.future.add_done_callback(lambda _: self._unsettled.discard(request))
            self._deadlines.add(request.deadline + GRACE_S, request)
            for place, row in enumerate(rows):
                self._pool.submit(self._run, request, place, row)
        return joined.future

    def budgets(self, seconds: float) -> dict[str, float]:
        """Split the deadlines by the calls of the last seconds, where that pays; gives the least budget of a session.

        Parameters
        ----------
        seconds : float
            Since the call before.
        """
        found: dict[str, float] = {}
        for live in self._live.values():
            for session, budget in live.follow(seconds).items():
                found[session] = min(budget, found.get(session, budget))
        return found

    def stop(self) -> None:
        """Fail what waits, and take nothing more."""
        with self._lock:
            self._stopped = True
            requests = list(self._unsettled)
        self._deadlines.stop()
        for request in requests:
            request.joined.fail(ServerStoppedError("the server was stopped while the request waited"))
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, request: AppRequest, place: int, row: Mapping[str, NDArray[Any]]) -> None:
        with self._lock:
            self._waiting -= 1
        app, joined = request.live.deployed.app, request.joined
        if joined.future.done():
            return
        calls = RowCalls(self._router, request)
        token = CURRENT.set(calls)
        try:
            outputs = outputs_of(app, app.process(request_of(app, row)))
        except CancelledError:
            return  # the request is over: its calls were cancelled
        except RequestError as error:
            joined.fail(error)
        except Exception as error:  # noqa: BLE001 - the user's own code may raise anything
            if not joined.future.done():
                _LOG.exception("application %s failed", app.name)
            joined.fail(ModelFailedError(f"application {app.name!r} failed: {type(error).__name__}: {error}"))
        else:
            request.live.count(calls.trace)
            joined.answer(place, outputs)
        finally:
            CURRENT.reset(token)

    def _count(self, name: str, rows: int, done: Future[Outputs]) -> None:
        error = None if done.cancelled() else done.exception()
        how = "cancelled" if done.cancelled() else "answered" if error is None else type(error).__name__
        with self._lock:
            self.ended[name, how] += rows


def _too_late(request: AppRequest) -> None:
    request.joined.fail(TooLateError(f"{request.live.name} was not answered by its deadline"))
