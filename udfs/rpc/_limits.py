"""Limits of the resources that an endpoint grants to members of the run and to unauthenticated peers."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of message sizes, connections and times of an endpoint and its callers.

    Examples
    --------
    >>> Limits().message_bytes
    67108864
    """

    # Maximum size of a request and of the reply to a call, in bytes. Default 64 MiB. The answer to a fetch may be
    # larger, because its signed header announces its size.
    message_bytes: int = 64 << 20
    # Maximum number of open connections of members of the run. Default 4096; further connections are closed.
    connections: int = 4096
    # Maximum number of open connections whose peer has not proved yet that it knows the secret. Default 64; a further
    # connection replaces the oldest.
    strangers: int = 64
    stranger_s: float = 10.0  # seconds that a peer has to prove that it knows the secret
    request_s: float = 60.0  # maximum seconds from the header of a request to its last byte
    # Minimum rate at which a peer must receive an answer, in bytes per second, in addition to request_s seconds.
    slowest: int = 1_000_000
    # Seconds after which an endpoint closes an idle connection. Default 60. Callers do not reuse a connection that was
    # idle for a sixth of this time, so that a request never meets a connection that is being closed.
    idle_s: float = 60.0
