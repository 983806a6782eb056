"""Reads and writes on a socket, encrypted or not, that end by a deadline."""

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
    """Give the time, of the monotonic clock, in so many seconds."""
    return time.monotonic() + seconds


def read(connection: socket.socket, count: int, until: float) -> bytes:
    """Read so many bytes, which are few; errors are those of :func:`read_into`."""
    buffer = bytearray(count)
    read_into(connection, memoryview(buffer), until)
    return bytes(buffer)


def read_into(connection: socket.socket, buffer: memoryview, until: float) -> None:
    """Fill a buffer.

    Raises
    ------
    OSError
        The deadline has passed, or the connection has ended before.
    RefusedError
        The connection is encrypted, and what came is not of its session.
    """
    with _told_apart():
        while buffer:
            _allow(connection, until)
            count = connection.recv_into(buffer)
            if not count:
                raise ConnectionResetError(_CLOSED)
            buffer = buffer[count:]


def write(connection: socket.socket, content: bytes | memoryview, until: float) -> None:
    """Write all of it; errors are those of :func:`read_into`."""
    with _told_apart():
        _allow(connection, until)
        connection.sendall(content)


def encrypt(connection: ssl.SSLSocket, until: float) -> None:
    """Agree on the keys of a session.

    Raises
    ------
    OSError
        The deadline has passed, or the connection has ended before.
    RefusedError
        The other side does not have the run's certificate, or does not speak TLS 1.3.
    """
    with _told_apart():
        _allow(connection, until)
        connection.do_handshake()


def cut(connection: socket.socket) -> None:
    """End a connection under whichever thread reads from it or writes to it."""
    with suppress(OSError):
        # The method of an encrypted socket would take its state from under that thread.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


@contextmanager
def _told_apart() -> Iterator[None]:
    """Tell an end of the connection from what is no message of its session: to Python both are errors of TLS."""
    try:
        yield
    except ssl.SSLCertVerificationError as error:
        raise RefusedError("an endpoint with another certificate than this run's") from error
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
        raise ConnectionResetError(_CLOSED) from error
    except ssl.SSLError as error:
        raise RefusedError(f"what is not encrypted as this run's messages are ({error.reason})") from error
    except OSError as error:
        if error.errno == errno.ENOTCONN:  # before its session began
            raise ConnectionResetError(_CLOSED) from error
        raise


def _allow(connection: socket.socket, until: float) -> None:
    remaining = until - time.monotonic()
    if remaining <= 0:
        raise TimeoutError("timed out")
    connection.settimeout(remaining)
