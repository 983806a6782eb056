"""Who may ask: whoever sends the token."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

from udfs.serving.http._replies import error_reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["TokenRequired"]


class TokenRequired:
    """An ASGI application that passes requests on if they have ``Authorization: Bearer`` and the token.

    Parameters
    ----------
    app : ASGI application
    token : str
    open_paths : frozenset of str
        What everybody may read.
    refused : callable
        Called for each request that is answered with 401.
    """

    def __init__(self, app: ASGIApp, token: str, open_paths: frozenset[str], refused: Callable[[], None]) -> None:
        self._app, self._open_paths, self._refused = app, open_paths, refused
        self._digest = _digest(token.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it before its body is read."""
        if scope["type"] == "http" and scope["path"] not in self._open_paths and not self._knows(scope):
            self._refused()
            message = "this server wants its token: Authorization: Bearer TOKEN"
            await error_reply(401, message, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _knows(self, scope: Scope) -> bool:
        said = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, token = said.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(_digest(token.strip()), self._digest)


def _digest(token: bytes) -> bytes:
    # Digests are of one length: comparing them takes the same time whatever was sent.
    return hashlib.sha256(token).digest()
