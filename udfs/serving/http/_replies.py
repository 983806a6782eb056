"""Replies of a front end: JSON without NaN, and errors as the protocol has them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["as_json", "error_reply", "json_reply"]


def as_json(document: Any) -> bytes:
    """Write JSON in ASCII: half of a surrogate pair in a client's text passes through it unharmed."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode()


def json_reply(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Make a response of JSON."""
    return Response(as_json(document), status, headers, "application/json")


def error_reply(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Make a response that says why there is no answer."""
    return json_reply({"error": message}, status, headers)
