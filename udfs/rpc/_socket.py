"""Reads and writes with a deadline, on encrypted and unencrypted sockets."""

from __future__ import annotations

import errno
import socket
import ssl
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from udfs.rpc._errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["cut", "deadline", "encrypt", "read", "read_into", "write"]

_CLOSED = "the other side closed the connection"


def deadline(seconds: float) -> float:
    """Return the time on the monotonic clock after a number of seconds."""
    return time.monotonic() + seconds


def read(connection: socket.socket, count: int, until: float) -> bytes:
    """Read a small number of bytes; see :func:`read_into` for the errors."""
    buffer = bytearray(count)
    read_into(connection, memoryview(buffer), until)
    return bytes(buffer)


def read_into(connection: socket.socket, buffer: memoryview, until: float) -> None:
    """Fill a buffer with bytes from a socket.

    Raises
    ------
    OSError
        The deadline has passed, or the connection was closed.
    RefusedError
        The connection is encrypted, and the received bytes do not belong to its session.
    """
    with _told_apart():
        while buffer:
            _allow(connection, until)
            count = connection.recv_into(buffer)
            if not count:
                raise ConnectionResetError(_CLOSED)
            buffer = buffer[count:]


def write(connection: socket.socket, content: bytes | memoryview, until: float) -> None:
    """Write all bytes of a content; see :func:`read_into` for the errors."""
    with _told_apart():
        _allow(connection, until)
        connection.sendall(content)


def encrypt(connection: ssl.SSLSocket, until: float) -> None:
    """Perform the TLS handshake.

    Raises
    ------
    OSError
        The deadline has passed, or the connection was closed.
    RefusedError
        The other side does not have the certificate of the run, or does not support TLS 1.3.
    """
    with _told_apart():
        _allow(connection, until)
        connection.do_handshake()


def cut(connection: socket.socket) -> None:
    """Shut a connection down while another thread reads from it or writes to it."""
    with suppress(OSError):
        # SSLSocket.shutdown would discard the TLS state that the other thread still uses.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


@contextmanager
def _told_apart() -> Iterator[None]:
    """Translate TLS errors into closed connections and refused messages, which Python does not distinguish."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise RefusedError("an endpoint with another certificate than this run's") from error
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
        raise ConnectionResetError(_CLOSED) from error
    except ssl.SSLError as error:
        raise RefusedError(f"a message that is not encrypted as this run's messages are ({error.reason})") from error
    except OSError as error:
        if error.errno == errno.ENOTCONN:  # the peer disconnected before the handshake
            raise ConnectionResetError(_CLOSED) from error
        raise


def _allow(connection: socket.socket, until: float) -> None:
    remaining = until - time.monotonic()
    if remaining <= 0:
        raise TimeoutError("timed out")
    connection.settimeout(remaining)
