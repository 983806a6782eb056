"""Request handling for the applications of a running server."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from optimizer.errors import nearest
from udfs.serving import (
    GRACE_S,
    DeadlineTimer,
    ModelFailedError,
    NoSuchModelError,
    OverloadedError,
    RequestError,
    ServerStoppedError,
    TooLateError,
)
from vista_spark.serving._app import CURRENT
from vista_spark.serving._app_calls import AppRequest, LiveApp, LiveCalls, RowCalls
from vista_spark.serving._deployed_app import outputs_of, request_of

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

# Requests of an application that may wait for a thread.
_WAITING = 512


class Applications:
    """Request handler for applications, which calls a router. The class is thread-safe.

    ``ended`` counts rows by application and result: ``"answered"``, ``"cancelled"``, or the name of an error class.
    """

    def __init__(self, router: LiveRouter, apps: Sequence[DeployedApp]) -> None:
        self._router = router
        self._live = {app.served.name: LiveApp(app) for app in apps}
        self._lock = threading.Lock()
        self._unsettled: set[AppRequest] = set()
        self._deadlines = DeadlineTimer[AppRequest](_too_late, lambda request: request.joined.future.done())
        self._stopped = False
        self.ended: Counter[tuple[str, str]] = Counter()
        for app in apps:
            app.app.calls = LiveCalls(router)

    def add(self, app: DeployedApp) -> None:
        """Add an application, or another version of one; earlier requests keep their version."""
        app.app.calls = LiveCalls(self._router)
        # Other threads read the mapping meanwhile, so it is replaced.
        self._live = {**self._live, app.served.name: LiveApp(app)}

    @property
    def models(self) -> tuple[ServedModel, ...]:
        """Applications as callers see them."""
        return tuple(live.deployed.served for live in self._live.values())

    def has(self, name: str) -> bool:
        """Return whether an application has this name."""
        return name in self._live

    def split(self, name: str) -> QuerySplit:
        """Return the calls and budgets of an application, as its traffic shows them."""
        if name not in self._live:
            raise NoSuchModelError(f"Application {name!r} is not deployed{nearest(name, self._live) or '.'}")
        return self._live[name].deployed.split

    def submit(
        self, name: str, inputs: Mapping[str, Any], *, version: str | None = None, timeout_ms: float | None = None
    ) -> Future[Outputs]:
        """Submit a request of one or more rows; see :meth:`udfs.serving.Router.submit`."""
        live = self._live[name]
        budget = live.deployed.served.budget_ms(version, timeout_ms)
        rows = live.deployed.admission.rows(inputs)
        request = AppRequest(live, len(rows), time.monotonic() + budget / 1000)
        joined = request.joined
        joined.future.add_done_callback(lambda done: self._count(name, len(rows), done))
        with self._lock:
            full = live.waiting >= _WAITING
            if not self._stopped and not full:
                live.waiting += len(rows)
                self._unsettled.add(request)
        if self._stopped:
            joined.fail(ServerStoppedError("The server was stopped."))
        elif full:
            joined.fail(OverloadedError(f"{_WAITING} requests already wait for application {name}. Try again later."))
        else:
            joined.future.add_done_callback(lambda _: self._unsettled.discard(request))
            self._deadlines.watch(request.deadline + GRACE_S, request)
            for place, row in enumerate(rows):
                live.threads.submit(self._run, request, place, row)
        return joined.future

    def budgets(self, seconds: float) -> dict[str, float]:
        """Split the deadlines by the calls of the last seconds; return the smallest budget of each session."""
        budgets: dict[str, float] = {}
        for live in self._live.values():
            for session, budget in live.follow(seconds).items():
                budgets[session] = min(budget, budgets.get(session, budget))
        return budgets

    def stop(self) -> None:
        """Fail waiting requests and refuse new ones."""
        with self._lock:
            self._stopped = True
            requests = list(self._unsettled)
        self._deadlines.stop()
        for request in requests:
            request.joined.fail(ServerStoppedError("The server was stopped while the request waited."))
        for live in self._live.values():
            live.threads.shutdown(wait=False, cancel_futures=True)

    def _run(self, request: AppRequest, place: int, row: Mapping[str, NDArray[Any]]) -> None:
        with self._lock:
            request.live.waiting -= 1
        app, joined = request.live.deployed.app, request.joined
        if joined.future.done():
            return
        calls = RowCalls(self._router, request)
        token = CURRENT.set(calls)
        try:
            outputs = outputs_of(app, app.process(request_of(app, row)))
            request.live.count(calls.trace)
            joined.answer(place, outputs)
        except CancelledError:
            return  # the request is over: its calls were cancelled
        except RequestError as error:
            joined.fail(error)
        except BaseException as error:  # noqa: BLE001 - the user's own code may raise anything, sys.exit included
            if not joined.future.done():
                _LOG.exception("application %s failed", app.name)
            joined.fail(ModelFailedError(f"Application {app.name!r} failed: {type(error).__name__}: {error}"))
        finally:
            CURRENT.reset(token)

    def _count(self, name: str, rows: int, done: Future[Outputs]) -> None:
        error = None if done.cancelled() else done.exception()
        how = "cancelled" if done.cancelled() else "answered" if error is None else type(error).__name__
        with self._lock:
            self.ended[name, how] += rows


def _too_late(request: AppRequest) -> None:
    request.joined.fail(TooLateError(f"{request.live.name} did not answer by the deadline."))
