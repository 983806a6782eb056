"""The applications of a running server: their requests, each with calls of its own."""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import threading
import time
from collections import Counter
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from udfs.serving import (
    BadRequestError,
    ModelFailedError,
    NoSuchModelError,
    OverloadedError,
    RequestError,
    ServerStoppedError,
    TooLateError,
)
from vista_spark.serving._app_request import AppRequest
from vista_spark.serving._deployed_app import outputs_of, request_of
from vista_spark.serving._live_app import LiveApp
from vista_spark.serving._live_calls import CURRENT, LiveCalls, RowCalls

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    from numpy.typing import NDArray

    from udfs.serving import LiveRouter, ServedModel
    from vista_spark.serving._deployed_app import DeployedApp

    Outputs = Mapping[str, NDArray[Any]]

__all__ = ["Applications"]

_LOG = logging.getLogger(__name__)

# Requests that run at a time, most of them waiting for models, and those that wait for one of these threads.
_THREADS = 64
_WAITING = 512

# As of the router: an answer a little after its deadline is welcome.
_GRACE_S = 0.05


class Applications:
    """Answers requests for applications, by calls to a router; every method may be called from any thread.

    Parameters
    ----------
    router : LiveRouter
    apps : sequence of DeployedApp

    Attributes
    ----------
    ended : Counter
        Requests by application and how they ended: ``"answered"``, or the name of an error.
    """

    def __init__(self, router: LiveRouter, apps: Sequence[DeployedApp]) -> None:
        self._router = router
        self._live = {one.served.name: LiveApp(one) for one in apps}
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="applications")
        self._lock = threading.Condition()
        self._waiting = 0
        self._numbers = itertools.count()
        self._deadlines: list[tuple[float, int, AppRequest]] = []
        self._stopped = False
        self.ended: Counter[tuple[str, str]] = Counter()
        for one in apps:
            one.app.calls = LiveCalls(router)
        if apps:
            threading.Thread(target=self._expire, name="application deadlines", daemon=True).start()

    @property
    def models(self) -> tuple[ServedModel, ...]:
        """The applications as callers see them."""
        return tuple(live.deployed.served for live in self._live.values())

    def has(self, name: str) -> bool:
        """Whether an application has this name."""
        return name in self._live

    def submit(
        self, name: str, inputs: Mapping[str, Any], *, version: str | None = None, timeout_ms: float | None = None
    ) -> Future[Outputs]:
        """Have an application answer a request of one or more rows; as :meth:`udfs.serving.Router.submit`."""
        live = self._live[name]
        served = live.deployed.served
        if version not in (None, served.version):
            raise NoSuchModelError(f"{name!r} has the version {served.version!r} alone, not {version!r}")
        budget = served.slo_ms if timeout_ms is None else timeout_ms
        if isinstance(budget, bool) or not isinstance(budget, int | float) or not 0 < budget < math.inf:
            raise BadRequestError(f"timeout_ms={timeout_ms!r}: milliseconds, above 0")
        rows = live.deployed.admission.rows(inputs)
        request = AppRequest(live, rows, time.monotonic() + budget / 1000)
        request.future.add_done_callback(lambda _: self._over(name, request))
        with self._lock:
            if self._stopped:
                request.fail(ServerStoppedError("the server was stopped"))
                return request.future
            full = self._waiting >= _WAITING
            if not full:
                self._waiting += len(rows)
                heapq.heappush(self._deadlines, (request.deadline + _GRACE_S, next(self._numbers), request))
                self._lock.notify_all()
        if full:
            request.fail(OverloadedError(f"{_WAITING} requests wait for the application {name} already"))
            return request.future
        for place, row in enumerate(rows):
            self._pool.submit(self._run, request, place, row)
        return request.future

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
            requests = [request for *_, request in self._deadlines]
            self._lock.notify_all()
        for request in requests:
            request.fail(ServerStoppedError("the server was stopped while the request waited"))
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, request: AppRequest, place: int, row: Mapping[str, NDArray[Any]]) -> None:
        with self._lock:
            self._waiting -= 1
        app = request.live.deployed.app
        if request.future.done():
            return
        calls = RowCalls(request)
        token = CURRENT.set(calls)
        try:
            outputs = outputs_of(app, app.process(request_of(app, row)))
        except CancelledError:
            return
        except RequestError as error:
            request.fail(error)
        except Exception as error:  # noqa: BLE001 - the user's own code may raise anything
            if not request.future.done():
                _LOG.exception("application %s failed", app.name)
            request.fail(ModelFailedError(f"application {app.name!r} failed: {type(error).__name__}: {error}"))
        else:
            request.live.count(calls.trace)
            request.answer(place, outputs)
        finally:
            CURRENT.reset(token)

    def _over(self, name: str, request: AppRequest) -> None:
        error = None if request.future.cancelled() else request.future.exception()
        how = "cancelled" if request.future.cancelled() else "answered" if error is None else type(error).__name__
        with self._lock:
            self.ended[name, how] += request.missing if how == "cancelled" else len(request.rows)
        request.cancel_calls()

    def _expire(self) -> None:
        """End the requests whose deadline went by, whatever their code does."""
        while True:
            with self._lock:
                while self._deadlines and self._deadlines[0][2].future.done():
                    heapq.heappop(self._deadlines)
                if self._stopped:
                    return
                now = time.monotonic()
                if not self._deadlines or self._deadlines[0][0] > now:
                    self._lock.wait(self._deadlines[0][0] - now if self._deadlines else None)
                    continue
                request = heapq.heappop(self._deadlines)[2]
            request.fail(TooLateError(f"{request.live.deployed.served.name} was not answered by its deadline"))
