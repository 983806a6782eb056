"""Address and token of a front end, checked before anything starts."""

from __future__ import annotations

import errno
import secrets
import socket
from typing import Literal

from optimizer.errors import InvalidArgumentError
from udfs.serving.http._errors import PortTakenError

__all__ = ["check_address", "check_port", "listening", "token_of", "url_of"]

_BACKLOG = 2048
_PORTS = 65_535
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # noqa: S104 - only compared with


def check_address(host: str, port: int, token: str | Literal[False] | None) -> None:
    """Check that a front end could start at an address with a token.

    Raises
    ------
    PortTakenError
        Another process listens at the port.
    InvalidArgumentError
        The host, the port or the token is not valid.
    """
    check_port(port)
    token_of(token)
    listening(host, port).close()


def check_port(port: int) -> None:
    """Refuse a value that is not a port."""
    if type(port) is not int or not 0 <= port <= _PORTS:
        raise InvalidArgumentError(f"port must be an int from 0 (a free port) to {_PORTS}, got {port!r}.")


def token_of(token: str | Literal[False] | None) -> str | None:
    """Return the token that clients must send: a random one for ``None``, none for ``False``."""
    if token is None:
        return secrets.token_urlsafe(32)
    if token is False:
        return None
    plain = isinstance(token, str) and token.isascii() and token.isprintable() and " " not in token
    if not plain or not token:
        raise InvalidArgumentError("token must be printable ASCII without spaces, or False for no token.")
    return token


def url_of(host: str, port: int) -> str:
    """Return the URL of a front end for clients on this machine.

    Examples
    --------
    >>> url_of("0.0.0.0", 8080)
    'http://127.0.0.1:8080'
    """
    host = _ANYWHERE.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def listening(host: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises
    ------
    PortTakenError
        Another process listens at the port.
    InvalidArgumentError
        The host is not an address of this machine, or the port needs more rights.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortTakenError(
                f"port must be free, got {port} of {host}, which another process uses. Set another "
                "port, or 0 for a free one."
            ) from error
        raise InvalidArgumentError(
            f"host and port must be an address of this machine, got {host!r} and {port}: {error.strerror or error}."
        ) from error
    # Head and body of a response are two packets; without this option the second one waits 40 ms for the client's
    # delayed acknowledgement. asyncio sets it only for sockets that name their protocol, which this one does not.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
