"""Middleware that identifies the sender of a request, and refuses requests without one."""

from __future__ import annotations

import hmac
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse

from udfs.web._cookies import cookie_name, csrf_token
from udfs.web._paths import is_api, route_path
from udfs.web._replies import error_reply

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from udfs.web._accounts import Accounts
    from udfs.web._principals import Principal
    from udfs.web._settings import WebSettings

__all__ = ["SIGN_IN", "SIGN_OUT", "Authentication"]

SIGN_IN = "/sign-in"
SIGN_OUT = "/sign-out"
_PUBLIC_PATHS = frozenset({SIGN_IN})
_PUBLIC_FOLDER = "/static/"
_READING = frozenset({"GET", "HEAD"})


class Authentication:
    """ASGI middleware that refuses requests without a principal, except for public paths.

    Every method other than GET and HEAD counts as a change. Without an access token it needs an Origin of this server
    and the token of the page (``X-CSRF-Token``), and a viewer cannot send it.
    """

    def __init__(self, app: ASGIApp, settings: WebSettings, accounts: Accounts) -> None:
        self._app, self._settings, self._accounts = app, settings, accounts
        self._origins, self._cookie = settings.origins, cookie_name(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it before its body is read."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        session, bearer = request.cookies.get(self._cookie, ""), _bearer(request)
        principal = await self._principal(session, bearer)
        request.state.principal = principal
        # Streams of events call it again: a session may end while they are open.
        request.state.authenticate = partial(self._principal, session, bearer)
        request.state.session = "" if bearer is not None or principal is None else session
        refusal = self._refusal(request, principal, is_program=bearer is not None)
        await (refusal or self._app)(scope, receive, send)

    async def _principal(self, session: str, bearer: str | None) -> Principal | None:
        if bearer is not None:  # the cookie does not count beside an access token
            return await run_in_threadpool(self._accounts.principal_of_token, bearer)
        return await run_in_threadpool(self._accounts.principal_of_session, session) if session else None

    def _refusal(self, request: Request, principal: Principal | None, *, is_program: bool) -> Response | None:
        path, is_change = route_path(request), request.method not in _READING
        if is_change and not is_program and request.headers.get("origin", "") not in self._origins:
            return _closing(403, "origin", "Origin must be this server. Open the page at an address in allowed_hosts.")
        if path in _PUBLIC_PATHS or path.startswith(_PUBLIC_FOLDER):
            return None
        has_one_time_token = request.method == "GET" and path == "/" and "token" in request.query_params
        if principal is None or has_one_time_token:
            return self._sign_in_first(request, path)
        return _refused_change(request, path, principal, is_program=is_program) if is_change else None

    def _sign_in_first(self, request: Request, path: str) -> Response:
        is_page = request.method == "GET" and not is_api(request)
        if not is_page or "text/html" not in request.headers.get("accept", ""):
            message = "The request must have a session or an access token: Authorization: Bearer TOKEN. Sign in."
            return _closing(401, "signed_out", message, {"WWW-Authenticate": "Bearer"})
        token = request.query_params.get("token", "")
        query = f"?token={quote(token, safe='')}" if path == "/" and token else ""
        return RedirectResponse(f"{self._settings.root_path}{SIGN_IN}{query}", 303)


def _refused_change(request: Request, path: str, principal: Principal, *, is_program: bool) -> Response | None:
    if not is_program and not _has_csrf_token(request):
        return _closing(403, "csrf", "X-CSRF-Token must be the token of the page. Load the page again.")
    if principal.role == "viewer" and path != SIGN_OUT:
        return _closing(403, "forbidden", f"role must include 'editor', got 'viewer' of {principal.name!r}.")
    return None


def _bearer(request: Request) -> str | None:
    """Return the access token of a request, empty for another scheme of authorization."""
    header = request.headers.get("authorization")
    if header is None:
        return None
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _has_csrf_token(request: Request) -> bool:
    sent = request.headers.get("x-csrf-token", "")
    return hmac.compare_digest(sent.encode(), csrf_token(request.state.session).encode())


def _closing(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> Response:
    # The body of a refused request is not read, so that the connection cannot be used again.
    return error_reply(status, code, message, {"Connection": "close", **(headers or {})})
