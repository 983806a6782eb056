"""Paths of requests below the prefix of a proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["is_api", "route_path"]


def route_path(request: Request) -> str:
    """Return the path below the prefix of the proxy, which some proxies remove and others pass on."""
    path, prefix = str(request.scope["path"]), str(request.scope.get("root_path", ""))
    return path.removeprefix(prefix) if prefix and f"{path}/".startswith(f"{prefix}/") else path


def is_api(request: Request) -> bool:
    """Return True if programs read the responses of the path."""
    return route_path(request).startswith("/api/")
