"""ASGI application of a front end, and the server that runs it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route

from udfs.serving.http._body_draining import DropUnread
from udfs.serving.http._connections import Connections, LimitedProtocol
from udfs.serving.http._errors import refusal_of
from udfs.serving.http._inference import Inference
from udfs.serving.http._live_page import LIVE_PATHS, live_routes
from udfs.serving.http._metadata import Metadata
from udfs.serving.http._responses import error_reply
from udfs.serving.http._token_check import TokenRequired

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from udfs.serving import Router
    from udfs.serving.http._limits import HttpLimits
    from udfs.serving.http._traffic import Counts

__all__ = ["DRAIN_S", "Watching", "application", "http_server"]

DRAIN_S = 5
"""Seconds that requests in flight have when a front end stops."""

_MODEL = "/v2/models/{name}"


class Watching(Protocol):
    """Endpoints for monitoring."""

    def status(self, _request: Request) -> Response:
        """Return the data of the live page."""

    def metrics(self, _request: Request) -> Response:
        """Return the metrics as Prometheus text."""


def application(
    router: Router,
    traffic: Counts,
    monitor: Watching,
    limits: HttpLimits,
    token: str | None,
    started: Callable[[], None],
) -> ASGIApp:
    """Return the ASGI application of a front end.

    Parameters
    ----------
    token : str or None
        Token that clients must send; ``None`` for none.
    started : callable
        Called when the application accepts requests.
    """
    metadata = Metadata(router, traffic)
    inference = Inference(router, traffic, limits)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        started()
        yield
        inference.close()

    async def infer(request: Request) -> Response:
        return await inference(request)

    app = Starlette(
        routes=[
            *live_routes(),
            Route("/status", monitor.status),
            Route("/metrics", monitor.metrics),
            Route("/v2", metadata.server),
            Route("/v2/health/live", metadata.live),
            Route("/v2/health/ready", metadata.ready),
            Route("/v2/repository/index", metadata.index, methods=["POST"]),
            *(
                route
                for path in (_MODEL, f"{_MODEL}/versions/{{version}}")
                for route in (
                    Route(path, metadata.model),
                    Route(f"{path}/ready", metadata.model_ready),
                    Route(f"{path}/infer", infer, methods=["POST"]),
                )
            ),
        ],
        exception_handlers={HTTPException: _http_error, Exception: _error},
        lifespan=lifespan,
    )
    return DropUnread(TokenRequired(app, token, LIVE_PATHS, partial(traffic.refused, "unauthorized")))


async def _http_error(request: Request, error: Exception) -> Response:
    """Return errors of the framework, such as an unknown path or method, in the form of the protocol."""
    if not isinstance(error, HTTPException):
        return refusal_of(error)
    return error_reply(error.status_code, f"{error.detail}: {request.method} {request.url.path[:200]}", error.headers)


async def _error(_request: Request, error: Exception) -> Response:
    return refusal_of(error)


def http_server(app: ASGIApp, limits: HttpLimits) -> uvicorn.Server:
    """Return a server for an ASGI application, without logging."""
    connections = Connections(limits)
    protocol: Any = partial(LimitedProtocol, registry=connections)
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=protocol,
            # asyncio accepts as many connections in a row, before the oldest of them can be closed.
            backlog=max(16, connections.most // 4),
            timeout_keep_alive=limits.keep_alive_s,  # type: ignore[arg-type] # it may be a fraction
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=DRAIN_S,
        )
    )
