"""Live page: an HTML document whose script requests ``/status`` each second, with the style of the web application."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

import udfs

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["LIVE_PATHS", "live_routes"]

_STATIC, _WEB_STATIC = Path(__file__).parent / "static", Path(udfs.__file__).parent / "web" / "static"
_FILES = {
    "/": (_STATIC / "live.html", "text/html"),
    "/static/live.css": (_STATIC / "live.css", "text/css"),
    "/static/live.js": (_STATIC / "live.js", "text/javascript"),
    # The package udfs.web needs a database; only its files are used.
    "/static/style.css": (_WEB_STATIC / "style.css", "text/css"),
    "/static/icon.svg": (_WEB_STATIC / "icon.svg", "image/svg+xml"),
}

LIVE_PATHS = frozenset(_FILES)
"""Paths that need no token: they have no numbers, which the script requests with the token."""

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; connect-src 'self'; img-src 'self'; style-src 'self'; script-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def live_routes() -> list[Route]:
    """Return the routes of the page and its files."""
    return [_route(path, file.read_text(encoding="utf-8"), kind) for path, (file, kind) in _FILES.items()]


def _route(path: str, text: str, kind: str) -> Route:
    async def reply(_request: Request) -> Response:
        return Response(text, media_type=kind, headers=_HEADERS)

    return Route(path, reply)
