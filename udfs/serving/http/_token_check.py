"""Token check of HTTP requests."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

from udfs.serving.http._responses import error_reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["TokenRequired"]


class TokenRequired:
    """ASGI middleware that passes requests with ``Authorization: Bearer`` and the token, and answers others with 401.

    Parameters
    ----------
    open_paths : frozenset of str
        Paths that need no token.
    refused : callable
        Called for each refused request.
    """

    def __init__(self, app: ASGIApp, token: str, open_paths: frozenset[str], refused: Callable[[], None]) -> None:
        self._app, self._open_paths, self._refused = app, open_paths, refused
        self._digest = _digest(token.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it before its body is read."""
        if scope["type"] == "http" and scope["path"] not in self._open_paths and not self._knows(scope):
            self._refused()
            message = "The request must have the token of this server: Authorization: Bearer TOKEN."
            await error_reply(401, message, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _knows(self, scope: Scope) -> bool:
        said = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, token = said.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(_digest(token.strip()), self._digest)


def _digest(token: bytes) -> bytes:
    # Digests have the same length, so that a comparison takes the same time for every token.
    return hashlib.sha256(token).digest()
