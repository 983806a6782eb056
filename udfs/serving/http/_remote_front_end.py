"""A front end in a process that has no router: one of the driver answers its requests."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from starlette.responses import Response

from udfs.rpc import CallError, RefusedError
from udfs.serving.http._app import application
from udfs.serving.http._forwarding import Counted
from udfs.serving.http._remote_router import RemoteRouter
from udfs.serving.http._replies import error_reply
from udfs.serving.http._uvicorn import http_server

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    import uvicorn
    from starlette.requests import Request

    from udfs.rpc import Credentials
    from udfs.serving.http._limits import HttpLimits
    from udfs.serving.http._traffic import Version

__all__ = ["RemoteFrontEnd"]

_WATCH_S = 5.0


class RemoteFrontEnd:
    """Answers HTTP at a socket, by the router of a driver.

    Parameters
    ----------
    name, location : str
    credentials : Credentials
        As of :class:`RemoteRouter`.
    limits : HttpLimits
    token : str or None
    started : callable
        Called when it takes requests.

    Raises
    ------
    udfs.rpc.CallError, udfs.rpc.RefusedError
        The driver cannot be reached, or does not know this front end.
    """

    def __init__(
        self,
        name: str,
        location: str,
        credentials: Credentials,
        *,
        limits: HttpLimits,
        token: str | None,
        started: Callable[[], None],
    ) -> None:
        self._over = False
        self._server: uvicorn.Server | None = None
        self._router = RemoteRouter(name, location, credentials, self.stop)
        app = application(
            self._router, _ForwardedCounts(self._router), _ForwardedMonitor(self._router), limits, token, started
        )
        self._server = server = http_server(app)
        # The driver may have been lost meanwhile.
        server.should_exit = self._over

    def serve(self, listening: socket.socket) -> None:
        """Answer until :meth:`stop`, or until the driver is gone; requests in flight have a few seconds then."""
        assert self._server is not None  # it was made with this object
        try:
            asyncio.run(self._server.serve(sockets=[listening]))
        finally:
            self._router.close()

    def stop(self) -> None:
        """Take no more requests."""
        self._over = True
        if self._server is not None:
            self._server.should_exit = True


class _ForwardedCounts:
    """Counts at the driver, of all front ends together; only what is in flight here is known here."""

    def __init__(self, router: RemoteRouter) -> None:
        self._router = router
        self._lock = threading.Lock()
        self._in_flight = 0

    @property
    def in_flight(self) -> int:
        """Requests of this front end that wait for their answer."""
        return self._in_flight

    def began(self, model: Version) -> None:
        """Count a request as in flight."""
        with self._lock:
            self._in_flight += 1
        self._router.count(Counted(model.name, model.version, "", 0.0))

    def ended(self, model: Version, result: str, seconds: float) -> None:
        """Count what became of a request that was in flight."""
        with self._lock:
            self._in_flight -= 1
        self._router.count(Counted(model.name, model.version, result, seconds))

    def refused(self, reason: str) -> None:
        """Count a request that names no deployed model, or has no token."""
        self._router.refuse(reason)


class _ForwardedMonitor:
    """The driver's counts, and the gauges of its backends."""

    def __init__(self, router: RemoteRouter) -> None:
        self._router = router

    def status(self, _request: Request) -> Response:
        """Give what the live page shows."""
        return self._watched("status")

    def metrics(self, _request: Request) -> Response:
        """Give Prometheus's text."""
        return self._watched("metrics")

    def _watched(self, what: str) -> Response:
        try:
            found = self._router.watch(what, _WATCH_S)
        except (CallError, RefusedError) as error:
            return error_reply(503, f"the driver does not answer: {error}")
        return Response(found.text, found.status, {"Content-Type": found.content_type})
