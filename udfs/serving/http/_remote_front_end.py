"""HTTP front end in a process without a router: the driver's router answers its requests."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from starlette.responses import Response

from udfs.rpc import CallError, RefusedError
from udfs.serving.http._app import application, http_server
from udfs.serving.http._forwarding import Counted
from udfs.serving.http._remote_router import RemoteRouter
from udfs.serving.http._responses import error_reply

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
    """HTTP front end at a socket, answered by the router of a driver.

    Parameters
    ----------
    credentials : Credentials
        See :class:`RemoteRouter`.
    started : callable
        Called when the front end accepts requests.

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
        self._server = server = http_server(app, limits)
        # The driver may be lost already.
        server.should_exit = self._over

    def serve(self, listening: socket.socket) -> None:
        """Answer until :meth:`stop`, or until the driver is lost; requests in flight then have a few seconds."""
        assert self._server is not None
        try:
            asyncio.run(self._server.serve(sockets=[listening]))
        finally:
            self._router.close()

    def stop(self) -> None:
        """Refuse new requests."""
        self._over = True
        if self._server is not None:
            self._server.should_exit = True


class _ForwardedCounts:
    """Counts that are kept by the driver for all front ends; only requests in flight are known here."""

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
        """Count the result of a request."""
        with self._lock:
            self._in_flight -= 1
        self._router.count(Counted(model.name, model.version, result, seconds))

    def refused(self, reason: str) -> None:
        """Count a request without a deployed model or without the token."""
        self._router.refuse(reason)


class _ForwardedMonitor:
    """Monitoring endpoints that are answered by the driver."""

    def __init__(self, router: RemoteRouter) -> None:
        self._router = router

    def status(self, _request: Request) -> Response:
        """Return the data of the live page."""
        return self._watched("status")

    def metrics(self, _request: Request) -> Response:
        """Return the metrics as Prometheus text."""
        return self._watched("metrics")

    def _watched(self, what: str) -> Response:
        try:
            watched = self._router.watch(what, _WATCH_S)
        except (CallError, RefusedError) as error:
            return error_reply(503, f"The driver does not answer: {error}")
        return Response(watched.text, watched.status, {"Content-Type": watched.content_type})
