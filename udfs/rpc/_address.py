"""The address under which others reach this machine."""

from __future__ import annotations

import socket

__all__ = ["address_towards"]


def address_towards(location: str) -> str:
    """Find the address of this machine on the interface that leads to a location.

    Parameters
    ----------
    location : str
        ``grpc+tcp://host:port``.

    Examples
    --------
    >>> address_towards("grpc+tcp://127.0.0.1:80")
    '127.0.0.1'
    """
    host, _, port = location.rpartition("://")[2].rpartition(":")
    family, kind, _, _, target = socket.getaddrinfo(host, int(port), type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:  # of datagrams: nothing is sent to connect
        probe.connect(target)
        return str(probe.getsockname()[0])
