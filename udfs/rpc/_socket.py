"""Reads and writes on a socket that end by a deadline."""

from __future__ import annotations

import socket
import time
from contextlib import suppress

__all__ = ["cut", "deadline", "read", "read_into", "write"]


def deadline(seconds: float) -> float:
    """Give the time, of the monotonic clock, in so many seconds."""
    return time.monotonic() + seconds


def read(connection: socket.socket, count: int, until: float) -> bytes:
    """Read so many bytes, which are few.

    Raises
    ------
    OSError
        The deadline has passed, or the connection has ended before.
    """
    buffer = bytearray(count)
    read_into(connection, memoryview(buffer), until)
    return bytes(buffer)


def read_into(connection: socket.socket, buffer: memoryview, until: float) -> None:
    """Fill a buffer.

    Raises
    ------
    OSError
        The deadline has passed, or the connection has ended before.
    """
    while buffer:
        _allow(connection, until)
        count = connection.recv_into(buffer)
        if not count:
            raise ConnectionResetError("the other side closed the connection")
        buffer = buffer[count:]


def write(connection: socket.socket, content: bytes | memoryview, until: float) -> None:
    """Write all of it.

    Raises
    ------
    OSError
        The deadline has passed, or the connection has ended before.
    """
    _allow(connection, until)
    connection.sendall(content)


def cut(connection: socket.socket) -> None:
    """End a connection under whichever thread reads from it or writes to it."""
    with suppress(OSError):
        # The method of an encrypted socket would take its state from under that thread.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _allow(connection: socket.socket, until: float) -> None:
    remaining = until - time.monotonic()
    if remaining <= 0:
        raise TimeoutError("timed out")
    connection.settimeout(remaining)
