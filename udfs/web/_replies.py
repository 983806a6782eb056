"""Replies to requests that fail, as JSON for programs and as text for people."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from sqlalchemy.exc import OperationalError
from starlette.exceptions import HTTPException

from udfs.web._errors import ApiError
from udfs.web._paths import is_api
from udfs.web._rendering import render

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI, Request
    from starlette.responses import Response

__all__ = ["ErrorDetail", "ErrorDocument", "add_error_replies", "error_reply", "failure_reply"]


class ErrorDetail(BaseModel):
    """Code and message of an error."""

    code: str
    message: str


class ErrorDocument(BaseModel):
    """JSON document of an error."""

    error: ErrorDetail


_LOG = logging.getLogger(__name__)
_LONGEST = 200
_FIELDS = 10


def error_reply(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return the JSON document of an error."""
    return JSONResponse({"error": {"code": code, "message": message}}, status, dict(headers or {}))


def failure_reply(error: Exception) -> Response:
    """Return the reply to a request that raised an unexpected error; its details are only in the log."""
    if isinstance(error, OperationalError):
        _LOG.error("The database failed.", exc_info=error)
        return error_reply(
            503,
            "database",
            f"The database must be writable, got {error.orig}. Nothing was changed: free disk space or end the process "
            "that locks it, then try again.",
            {"Retry-After": "1"},
        )
    _LOG.error("A request failed.", exc_info=error)
    return error_reply(500, "internal", "The server failed to answer. Its log has the traceback.")


def add_error_replies(app: FastAPI) -> None:
    """Reply to errors of routes and of the framework in one form."""
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)


async def _api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return _reply(request, error.status, error.code, str(error), error.headers)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = HTTPStatus(error.status_code).name.lower()
    message = f"{error.detail}: {request.method} {request.url.path[:_LONGEST]}"
    return _reply(request, error.status_code, code, message, error.headers)


async def _invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    # The input itself may be large, so only the names of the fields and the reasons are replied.
    fields = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}"[:_LONGEST] for each in error.errors()[:_FIELDS]]
    return _reply(request, 422, "invalid", f"The request must have valid fields, got {'; '.join(fields)}.")


def _reply(
    request: Request, status: int, code: str, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the error as a page to a browser that opened an address, as JSON otherwise."""
    is_page = request.method == "GET" and "text/html" in request.headers.get("accept", "")
    if not is_page or is_api(request):
        return error_reply(status, code, message, headers)
    page = render(request, "error.html", status, title=HTTPStatus(status).phrase, message=message)
    page.headers.update(dict(headers or {}))
    return page
