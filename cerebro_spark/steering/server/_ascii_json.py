"""JSON responses in ASCII."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse

__all__ = ["AsciiJson"]


class AsciiJson(JSONResponse):
    """JSON response whose other characters are escaped.

    Texts of a run, such as tracebacks with names of files, may contain half of a surrogate pair, which UTF-8 cannot
    express.
    """

    def render(self, content: Any) -> bytes:
        """Return the bytes of the response."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
