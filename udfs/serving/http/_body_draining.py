"""Draining of request bodies after their response."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["DropUnread"]

_LONGEST_S = 5.0


class DropUnread:
    """ASGI middleware that reads and drops the rest of a request's body after the response.

    A server that closes while its client is sending resets the connection, and the client may never see the response.
    Reading ends after a few seconds.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and end its response when its body has ended."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        ended = False

        async def watched() -> Message:
            nonlocal ended
            message = await receive()
            ended = ended or not message.get("more_body", False)
            return message

        async def drop() -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LONGEST_S):
                    while not ended:
                        await watched()

        async def send_and_drop(message: Message) -> None:
            last = message["type"] == "http.response.body" and not message.get("more_body", False)
            if last and not ended:
                await send({**message, "more_body": True})
                await drop()
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        await self._app(scope, watched, send_and_drop)
