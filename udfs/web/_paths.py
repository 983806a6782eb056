"""Paths of requests below the prefix of a proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["is_api", "route_path"]


def route_path(request: Request) -> str:
    """Return the path of a request without the prefix of the proxy."""
    return str(request.scope["path"]).removeprefix(str(request.scope.get("root_path", "")))


def is_api(request: Request) -> bool:
    """Return True if programs read the responses of the path."""
    return route_path(request).startswith("/api/")
