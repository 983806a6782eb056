"""Limits of an endpoint: how much strangers, and members of the run, may take of its process."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes, connections and seconds that an endpoint and its callers allow.

    Attributes
    ----------
    message_bytes : int
        Largest request, and largest reply to a call. Default 64 MiB. The answer to a fetch may be larger: its signed
        header announces its size.
    connections : int
        Connections at a time, of members of the run. Default 4096; further ones are closed.
    strangers : int
        Connections at a time that have not proved yet that they know the secret. Default 64; further ones take the
        place of the oldest.
    stranger_s : float
        Seconds until a stranger has to have proved it. Default 10.
    request_s : float
        Seconds from a request's header to its last byte. Default 60.
    slowest : int
        Bytes per second that a peer has to take of an answer, beside ``request_s`` seconds. Default 1,000,000.
    idle_s : float
        Seconds after which an endpoint closes a connection without requests. Default 60; callers use none that is idle
        for a sixth of it, so that the two do not cross.

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
