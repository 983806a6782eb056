"""TLS between the members of a run, with the certificate of the run pinned on both sides."""

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
    """TLS socket that closes itself if the peer disconnects before the handshake; Python's own stays open."""

    def getpeername(self) -> Any:
        try:
            return super().getpeername()
        except OSError as error:
            self.close()
            raise ConnectionResetError("the other side closed the connection") from error


def context_of_endpoint(credentials: Credentials) -> ssl.SSLContext:
    """Create the TLS context of an endpoint, which has the private key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslsocket_class = _Connection
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # no session resumption: every connection authenticates itself
    # Python's ssl reads keys from a path only, and the key must not be written to disk.
    with _pipe(credentials.certificate) as certificate, _pipe(credentials.key) as key:
        context.load_cert_chain(certificate, key)
    return context


def context_of_caller(credentials: Credentials) -> ssl.SSLContext:
    """Create the TLS context of a caller, which accepts only the certificate of the run."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.sslsocket_class = _Connection
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate is pinned, whatever the host
    context.load_verify_locations(cadata=credentials.certificate)
    return context


def session_of(connection: socket.socket) -> bytes:
    """Return the channel binding of a TLS session, or ``b""`` for an unencrypted connection.

    The binding is the caller's final handshake message, a keyed digest of the handshake. Both ends of the session know
    it, and it differs between sessions.
    """
    if not isinstance(connection, ssl.SSLSocket):
        return b""
    session = connection.get_channel_binding("tls-unique")
    if not session:
        raise ConnectionAbortedError("the connection is not encrypted yet")
    return session


def underneath(connection: socket.socket) -> socket.socket:
    """Duplicate the socket of a connection, to exchange messages before it is encrypted."""
    return socket.socket(fileno=os.dup(connection.fileno()))


@contextmanager
def _pipe(text: str) -> Iterator[str]:
    """Provide a path from which a short text can be read once."""
    reader, writer = os.pipe()
    try:
        with open(writer, "w") as file:  # noqa: PTH123 - a descriptor
            file.write(text)
        yield f"/dev/fd/{reader}"
    finally:
        os.close(reader)
