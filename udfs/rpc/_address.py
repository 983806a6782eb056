"""Addresses: where an endpoint is, and under which address others reach this machine."""

from __future__ import annotations

import socket

__all__ = ["address_towards", "host_and_port", "location_of"]


def location_of(host: str, port: int) -> str:
    """Write an endpoint's location.

    Examples
    --------
    >>> location_of("10.0.0.1", 80), location_of("::1", 80)
    ('tcp://10.0.0.1:80', 'tcp://[::1]:80')
    """
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def host_and_port(location: str) -> tuple[str, int]:
    """Read an endpoint's location.

    Examples
    --------
    >>> host_and_port("tcp://[::1]:80")
    ('::1', 80)
    """
    host, _, port = location.rpartition("://")[2].rpartition(":")
    return host.strip("[]"), int(port)


def address_towards(location: str) -> str:
    """Find the address of this machine on the interface that leads to a location.

    Parameters
    ----------
    location : str
        ``tcp://host:port``.

    Examples
    --------
    >>> address_towards("tcp://127.0.0.1:80")
    '127.0.0.1'
    """
    host, port = host_and_port(location)
    family, kind, _, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:  # of datagrams: nothing is sent to connect
        probe.connect(target)
        return str(probe.getsockname()[0])
