"""Middleware that sets the path prefix, adds security headers, and refuses unknown hosts and large bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request

from udfs.web._json_text import is_unicode
from udfs.web._paths import route_path
from udfs.web._replies import error_reply, failure_reply

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from udfs.web._settings import WebSettings

__all__ = ["BodyLimit", "HostCheck", "PathPrefix", "SecurityHeaders"]

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; font-src 'self'; "
        "connect-src 'self'; worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not no-referrer: browsers then send "Origin: null" with forms, which the check of origins refuses.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class PathPrefix:
    """ASGI middleware that sets the prefix of a proxy, whether the proxy removes it from paths or passes it on."""

    def __init__(self, app: ASGIApp, settings: WebSettings) -> None:
        self._app, self._prefix = app, settings.root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] == "http":
            scope["root_path"] = prefix = self._prefix
            if not f"{scope['path']}/".startswith(f"{prefix}/"):
                scope["path"] = prefix + scope["path"]
        await self._app(scope, receive, send)


class SecurityHeaders:
    """ASGI middleware that adds security headers to each response, also to those of unexpected errors.

    WebSockets are refused: no page uses them, and the checks of origins and tokens are those of HTTP.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except Exception as error:
            if started:
                raise
            await failure_reply(error)(scope, receive, send_with_headers)


class HostCheck:
    """ASGI middleware that refuses requests whose Host header names another server.

    A page of an attacker whose name resolves to this address (DNS rebinding) sends the attacker's name.
    """

    def __init__(self, app: ASGIApp, settings: WebSettings) -> None:
        self._app, self._hosts = app, settings.hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it before its body is read."""
        if scope["type"] == "http":
            names = Headers(scope=scope).getlist("host")
            if len(names) != 1 or names[0].lower() not in self._hosts:
                shown = ", ".join(names)[:200]
                reason = f"Host must be an address of this server, got {shown!r}. Add it to allowed_hosts."
                await error_reply(421, "host", reason, {"Connection": "close"})(scope, receive, send)
                return
        await self._app(scope, receive, send)


class BodyLimit:
    """ASGI middleware that reads the body of a request, and refuses one above the limit or with invalid text."""

    def __init__(self, app: ASGIApp, settings: WebSettings) -> None:
        self._app, self._settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its complete body, so that a route never starts on a body that is too large."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        limit = self._limit(scope)
        length = headers.get("content-length", "")
        body, more, is_large = bytearray(), True, length.isdigit() and int(length) > limit
        while more and not is_large:
            message = await receive()
            if message["type"] != "http.request":
                return  # the client disconnected
            body += message.get("body", b"")
            more = message.get("more_body", False)
            is_large = len(body) > limit
        if is_large:
            reason = f"The body must have at most {limit:,} bytes. Send several smaller requests."
            await error_reply(413, "large", reason, {"Connection": "close"})(scope, receive, send)
            return
        # Without a type, a body may be read as JSON too.
        is_json = "json" in headers.get("content-type", "json").lower()
        # In a thread: reports of runners are large, and other requests go on meanwhile.
        if is_json and body and not await run_in_threadpool(is_unicode, bytes(body)):
            reason = "The body must be UTF-8 without halves of surrogate pairs, such as '\\ud800'."
            await error_reply(422, "unicode", reason)(scope, receive, send)
            return
        is_read = False

        async def replay() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()
            is_read = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        await self._app(scope, replay, send)

    def _limit(self, scope: Scope) -> int:
        if route_path(Request(scope)) in self._settings.uploads:
            return self._settings.upload_limit
        return self._settings.report_limit if _is_runner(scope) else self._settings.body_limit


def _is_runner(scope: Scope) -> bool:
    """Check whether a program with the role of a runner sent a request, which its token has shown."""
    state = scope.get("state", {})
    principal = state.get("principal")
    return principal is not None and not state.get("session") and principal.includes("runner")
