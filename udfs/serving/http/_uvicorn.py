"""The server below a front end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["DRAIN_S", "http_server"]

DRAIN_S = 5
"""Seconds that requests in flight have when a front end ends."""


def http_server(app: ASGIApp) -> uvicorn.Server:
    """Make a server that answers by an application; it logs nothing of its own."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=DRAIN_S,
        )
    )
