"""JSON responses and error responses of the protocol."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["as_json", "error_reply", "json_reply"]


def as_json(document: Any) -> bytes:
    """Encode JSON in ASCII, without NaN; lone surrogates of a client's text pass unchanged."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode()


def json_reply(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON response."""
    return Response(as_json(document), status, headers, "application/json")


def error_reply(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error response."""
    return json_reply({"error": message}, status, headers)
