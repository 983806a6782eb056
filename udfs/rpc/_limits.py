"""Limits of the resources that an endpoint grants to members of the run and to unauthenticated peers."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of message sizes, connections and times of an endpoint and its callers.

    Attributes
    ----------
    message_bytes : int
        Maximum size of a request and of the reply to a call, in bytes. Default 64 MiB. The answer to a fetch may be
        larger, because its signed header announces its size.
    connections : int
        Maximum number of open connections of members of the run. Default 4096; further connections are closed.
    strangers : int
        Maximum number of open connections whose peer has not proved yet that it knows the secret. Default 64; a further
        connection replaces the oldest.
    stranger_s : float
        Seconds that a peer has to prove that it knows the secret. Default 10.
    request_s : float
        Maximum seconds from the header of a request to its last byte. Default 60.
    slowest : int
        Minimum rate at which a peer must receive an answer, in bytes per second, in addition to ``request_s`` seconds.
        Default 1,000,000.
    idle_s : float
        Seconds after which an endpoint closes an idle connection. Default 60. Callers do not reuse a connection that
        was idle for a sixth of this time, so that a request never meets a connection that is being closed.

    Examples
    --------
    >>> Limits().message_bytes
    67108864
    """

    message_bytes: int = 64 << 20
    connections: int = 4096
    strangers: int = 64
    stranger_s: float = 10.0
    request_s: float = 60.0
    slowest: int = 1_000_000
    idle_s: float = 60.0
