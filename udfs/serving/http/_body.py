"""Request bodies, read and unpacked within limits of size and time."""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect

from udfs.serving import BadRequestError
from udfs.serving.http._errors import BodyRefusedError, DisconnectedError

if TYPE_CHECKING:
    from starlette.requests import Request

    from udfs.serving.http._limits import HttpLimits

__all__ = ["json_length", "read_body"]

# Window sizes as zlib names them: a gzip header, or one of zlib.
_WINDOWS = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


async def read_body(request: Request, limits: HttpLimits) -> bytes:
    """Read a body; refuse one that is too large by its header, or as soon as it is.

    Raises
    ------
    BodyRefusedError
        The body is too large or too slow, or has an unknown encoding.
    BadRequestError
        The body cannot be unpacked.
    DisconnectedError
        The client disconnected.
    """
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity" and encoding not in _WINDOWS:
        raise BodyRefusedError(415, f"Content-Encoding must be gzip, deflate or absent, got {encoding[:40]!r}.")
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limits.body_bytes:
        raise _too_large(limits)
    parts, size = [], 0
    try:
        async with asyncio.timeout(limits.body_s):
            async for part in request.stream():
                size += len(part)
                if size > limits.body_bytes:
                    raise _too_large(limits)
                parts.append(part)
    except TimeoutError:
        raise BodyRefusedError(408, f"The body must be complete within {limits.body_s:g} s.") from None
    except ClientDisconnect:
        raise DisconnectedError("The client disconnected while it sent the body.") from None
    body = b"".join(parts)
    return body if encoding == "identity" else _unpacked(body, encoding, limits)


def json_length(request: Request) -> int | None:
    """Return the length of the JSON part of a body, from its header.

    Raises
    ------
    BadRequestError
        The header is not a number.
    """
    said = request.headers.get("inference-header-content-length")
    if said is None:
        return None
    if not said.isascii() or not said.isdecimal() or len(said) > 18:
        raise BadRequestError(f"Inference-Header-Content-Length must be a number of bytes, got {said[:40]!r}.")
    return int(said)


def _unpacked(body: bytes, encoding: str, limits: HttpLimits) -> bytes:
    stream = zlib.decompressobj(_WINDOWS[encoding])
    try:
        unpacked = stream.decompress(body, limits.body_bytes + 1)
    except zlib.error as error:
        raise BadRequestError(f"The body must be {encoding}: {error}.") from None
    if len(unpacked) > limits.body_bytes:
        raise _too_large(limits)
    if not stream.eof or stream.unused_data:
        raise BadRequestError(f"The body must be one complete {encoding} stream.")
    return unpacked


def _too_large(limits: HttpLimits) -> BodyRefusedError:
    return BodyRefusedError(413, f"The body must have at most {limits.body_bytes} bytes. Send smaller batches.")
