"""Limits of HTTP requests."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from optimizer.errors import InvalidArgumentError

__all__ = ["HttpLimits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Limits of HTTP requests.

    Raises
    ------
    InvalidArgumentError
        A limit is not a positive number.

    Examples
    --------
    >>> HttpLimits(body_bytes=1 << 20).in_flight
    512
    """

    body_bytes: int = 32 << 20  # largest body, compressed or not. Default 32 MiB; a larger one is answered with 413.
    in_flight: int = 512  # concurrent requests. Default 512; further ones are answered with 503.
    timeout_s: float = 600.0  # longest timeout of a request
    # Open connections. Default 2048, and at most half of the descriptors that the process may open. At most an eighth
    # of this number may be without a valid request; a further one replaces the oldest of these.
    connections: int = 2048
    # Seconds that a connection stays open between two requests. Default 75, longer than the usual 60 of load balancers.
    keep_alive_s: float = 75.0
    # Seconds from the start of a connection, or of a request, to the end of the request's head. Default 10; a slower
    # connection is closed.
    head_s: float = 10.0
    # Seconds from a request's head to the last byte of its body. Default 30; a slower one is answered with 408.
    body_s: float = 30.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
                raise InvalidArgumentError(f"{field.name} must be a positive number, got {value!r}.")
