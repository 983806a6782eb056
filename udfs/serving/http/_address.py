"""Where a front end listens, and the token that it asks for: checked before anything starts."""

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
    """Try whether a front end could start there, before anything that takes longer.

    Raises
    ------
    PortTakenError
        Another process listens there.
    InvalidArgumentError
        A host, port or token that cannot be.
    """
    check_port(port)
    token_of(token)
    listening(host, port).close()


def check_port(port: int) -> None:
    """Refuse what is no port."""
    if type(port) is not int or not 0 <= port <= _PORTS:
        raise InvalidArgumentError(f"port is {port!r}; give a number up to {_PORTS}, or 0 for a free port")


def token_of(token: str | Literal[False] | None) -> str | None:
    """Give the token that clients have to send: one that is drawn for ``None``, and none for ``False``."""
    if token is None:
        return secrets.token_urlsafe(32)
    if token is False:
        return None
    plain = isinstance(token, str) and token.isascii() and token.isprintable() and " " not in token
    if not plain or not token:
        raise InvalidArgumentError("token is a text of printable ASCII without spaces, or False for none")
    return token


def url_of(host: str, port: int) -> str:
    """Say where clients of this machine find a front end.

    Examples
    --------
    >>> url_of("0.0.0.0", 8080)
    'http://127.0.0.1:8080'
    """
    host = _ANYWHERE.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def listening(host: str, port: int) -> socket.socket:
    """Listen.

    Raises
    ------
    PortTakenError
        Another process listens there.
    InvalidArgumentError
        The host is no address of this machine, or the port needs more rights.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        found = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortTakenError(
                f"port {port} of {host} is taken by another process: name another port, or 0 for a free one"
            ) from error
        raise InvalidArgumentError(f"cannot listen at {host} port {port}: {error.strerror or error}") from error
    # Head and body of a response are two packets: the second one would wait for the client's delayed acknowledgement,
    # 40 ms. asyncio sees to it only where a socket names its protocol, and this one does not.
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found
