"""Routes that sign users in and out."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from udfs.web._accounts import SESSION_S
from udfs.web._attempts import Attempts
from udfs.web._authentication import SIGN_IN, SIGN_OUT
from udfs.web._cookies import cookie_name
from udfs.web._errors import ApiError
from udfs.web._rendering import render

if TYPE_CHECKING:
    from udfs.web._accounts import Accounts
    from udfs.web._settings import WebSettings

__all__ = ["sign_in_router"]

_ATTEMPTS = 10
_USED_LINK = (
    "This link was used before, or the server was started again. Open the address that the server printed last."
)
_WRONG = "The name or the password is wrong."


def sign_in_router(settings: WebSettings, accounts: Accounts) -> APIRouter:
    """Return the routes that sign users in and out."""
    router, attempts = APIRouter(include_in_schema=False), Attempts(_ATTEMPTS)

    @router.get(SIGN_IN)
    async def sign_in_page(request: Request, token: str = "") -> Response:
        if not token:
            return render(request, "sign_in.html", title="Sign in")
        # Attempts are not limited: 256 random bits cannot be guessed, and any page could use up the limit with images.
        session = await run_in_threadpool(accounts.redeem, token)
        if session is None:
            return render(request, "sign_in.html", 403, title="Sign in", message=_USED_LINK)
        return await signed_in(request, session)

    @router.post(SIGN_IN)
    async def sign_in(request: Request) -> Response:
        name, password = _fields(await request.body())
        keys = [_client(request), f"user {name[:100]}"]
        _check_rate(attempts, keys)
        principal = await run_in_threadpool(accounts.sign_in, name, password)
        if principal is None:
            return render(request, "sign_in.html", 403, title="Sign in", message=_WRONG)
        attempts.withdraw(keys)
        return await signed_in(request, await run_in_threadpool(accounts.open_session, principal))

    @router.post(SIGN_OUT)
    async def sign_out(request: Request) -> Response:
        await run_in_threadpool(accounts.end_session, request.state.session)
        response = Response(status_code=204)
        response.delete_cookie(cookie_name(settings), path=settings.root_path or "/", httponly=True, samesite="strict")
        return response

    async def signed_in(request: Request, session: str) -> Response:
        if request.state.session:
            await run_in_threadpool(accounts.end_session, request.state.session)
        response = RedirectResponse(f"{settings.root_path}/", 303)
        response.set_cookie(
            cookie_name(settings),
            session,
            max_age=SESSION_S,
            path=settings.root_path or "/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return response

    return router


def _fields(body: bytes) -> tuple[str, str]:
    """Return the name and the password of a form."""
    try:
        fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=10)
    except ValueError as error:
        raise ApiError(422, "form", "The form must have the fields name and password, got more.") from error
    return fields.get("name", [""])[0], fields.get("password", [""])[0]


def _client(request: Request) -> str:
    return f"address {request.client.host if request.client else ''}"


def _check_rate(attempts: Attempts, keys: list[str]) -> None:
    if not attempts.begin(keys):
        raise ApiError(
            429, "attempts", f"At most {_ATTEMPTS} sign-ins per minute may fail. Wait a minute.", {"Retry-After": "60"}
        )
