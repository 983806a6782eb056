"""TLS between members of a run: both know its certificate, and nobody else's is accepted."""

from __future__ import annotations

import os
import socket
import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from udfs.rpc._credentials import Credentials

__all__ = ["context_of_caller", "context_of_endpoint", "session_of", "underneath"]


class _Connection(ssl.SSLSocket):
    """A socket that closes itself if the other side goes before there is a session: Python leaves its own open."""

    def getpeername(self) -> Any:
        try:
            return super().getpeername()
        except OSError as error:
            self.close()
            raise ConnectionResetError("the other side closed the connection") from error


def context_of_endpoint(credentials: Credentials) -> ssl.SSLContext:
    """Make the settings of the side that has the key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslsocket_class = _Connection
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # every connection proves itself anew
    # Python's ssl takes a key from a path alone, and the key is to be in no file.
    with _pipe(credentials.certificate) as certificate, _pipe(credentials.key) as key:
        context.load_cert_chain(certificate, key)
    return context


def context_of_caller(credentials: Credentials) -> ssl.SSLContext:
    """Make the settings of the side that accepts the run's certificate, and no other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.sslsocket_class = _Connection
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate is pinned, wherever it is presented
    context.load_verify_locations(cadata=credentials.certificate)
    return context


def session_of(connection: socket.socket) -> bytes:
    """Give what both ends of a TLS session have in common, and no other session has; nothing where there is none.

    It is the caller's last message of the handshake, a keyed digest of the whole of it.
    """
    if not isinstance(connection, ssl.SSLSocket):
        return b""
    session = connection.get_channel_binding("tls-unique")
    if not session:
        raise ConnectionAbortedError("the connection is not encrypted yet")
    return session


def underneath(connection: socket.socket) -> socket.socket:
    """Give a second handle on a connection, for what is said before it is encrypted."""
    return socket.socket(fileno=os.dup(connection.fileno()))


@contextmanager
def _pipe(text: str) -> Iterator[str]:
    """Give a path from which a short text can be read once."""
    reader, writer = os.pipe()
    try:
        with open(writer, "w") as file:  # noqa: PTH123 - a descriptor
            file.write(text)
        yield f"/dev/fd/{reader}"
    finally:
        os.close(reader)
