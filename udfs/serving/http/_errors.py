"""Errors of a front end, and their HTTP status codes."""

from __future__ import annotations

import logging
import math
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING

from optimizer.errors import CerebroError
from udfs.serving import (
    BadRequestError,
    ModelFailedError,
    NoSuchModelError,
    OverloadedError,
    RequestError,
    ServerStoppedError,
    TooLateError,
)
from udfs.serving.http._json_data import NotInJsonError
from udfs.serving.http._responses import error_reply

if TYPE_CHECKING:
    from starlette.responses import Response

    from udfs.serving import ServedModel

__all__ = ["BodyRefusedError", "DisconnectedError", "PortTakenError", "reason_of", "refusal_of"]

_LOG = logging.getLogger(__name__)


class PortTakenError(CerebroError, OSError):
    """Another process listens at this address."""


class BodyRefusedError(RequestError):
    """The body is too large or too slow, or has an unknown encoding; `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class DisconnectedError(RequestError):
    """The client disconnected."""


_STOPPED = (ServerStoppedError, CancelledError)
_REASONS: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str, int], ...] = (
    ((BadRequestError, BodyRefusedError), "bad_request", 400),
    (NotInJsonError, "bad_request", 406),
    (NoSuchModelError, "no_such_model", 404),
    (OverloadedError, "overloaded", 503),
    (TooLateError, "too_late", 504),
    (_STOPPED, "stopped", 503),
    (DisconnectedError, "disconnected", 499),
)
_FAILED = "failed"


def reason_of(error: BaseException) -> str:
    """Return the name of an error in the metrics."""
    return next((reason for kinds, reason, _ in _REASONS if isinstance(error, kinds)), _FAILED)


def refusal_of(error: BaseException, model: ServedModel | None = None) -> Response:
    """Return the response for an error.

    Messages of a model may contain anything, so they are logged, and the client only reads which model failed.
    """
    for kinds, _, status in _REASONS:
        if isinstance(error, kinds):
            return error_reply(getattr(error, "status", status), _text(error), _headers(error))
    named = f"Model {model.name!r} version {model.version}" if model else "The server"
    _LOG.error("%s failed", named, exc_info=error)
    what = "failed on these inputs" if isinstance(error, ModelFailedError) else "failed"
    return error_reply(500, f"{named} {what}. The server's log has the error.")


def _headers(error: BaseException) -> dict[str, str] | None:
    if isinstance(error, OverloadedError):
        return {"Retry-After": str(max(1, math.ceil(error.retry_after_s)))}
    return {"Retry-After": "1"} if isinstance(error, _STOPPED) else None


def _text(error: BaseException) -> str:
    if isinstance(error, _STOPPED):
        return "The server was stopped while the request waited."
    return str(error) or type(error).__name__
