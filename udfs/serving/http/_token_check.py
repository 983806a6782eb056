"""Token check of HTTP requests."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

from udfs.serving.http._connections import admit
from udfs.serving.http._responses import error_reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["TokenRequired"]


class TokenRequired:
    """ASGI middleware that passes requests with ``Authorization: Bearer`` and the token, and answers others with 401.

    The connection of a refused request is closed.

    Parameters
    ----------
    token : str or None
        Token that clients must send; ``None`` accepts every request.
    open_paths : frozenset of str
        Paths that need no token.
    refused : callable
        Called for each refused request.
    """

    def __init__(
        self, app: ASGIApp, token: str | None, open_paths: frozenset[str], refused: Callable[[], None]
    ) -> None:
        self._app, self._open_paths, self._refused = app, open_paths, refused
        self._digest = None if token is None else _digest(token.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it before its body is read."""
        if scope["type"] == "http":
            if self._knows(scope):
                admit(scope)
            elif scope["path"] not in self._open_paths:
                self._refused()
                message = "The request must have the token of this server: Authorization: Bearer TOKEN."
                headers = {"WWW-Authenticate": "Bearer", "Connection": "close"}
                await error_reply(401, message, headers)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _knows(self, scope: Scope) -> bool:
        if self._digest is None:
            return True
        said = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, token = said.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(_digest(token.strip()), self._digest)


def _digest(token: bytes) -> bytes:
    # Digests have the same length, so that a comparison takes the same time for every token.
    return hashlib.sha256(token).digest()
