"""Connections of an endpoint: many of members, few of strangers, and none for long that says nothing."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from udfs.rpc._socket import cut

if TYPE_CHECKING:
    import socket

    from udfs.rpc._limits import Limits

__all__ = ["Connection", "Connections"]


@dataclass(slots=True, eq=False)
class Connection:
    """A connection and the thread that serves it.

    Attributes
    ----------
    socket : socket.socket
    peer : str
    busy : bool
        Whether a request is being answered.
    """

    socket: socket.socket
    peer: str
    thread: threading.Thread | None = None
    busy: bool = False


class Connections:
    """Open connections within their limits. Every method may be called from any thread.

    Parameters
    ----------
    limits : Limits

    Attributes
    ----------
    dropped : int
        Connections that were closed for want of room.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._strangers: dict[Connection, None] = {}  # the oldest first
        self._members: set[Connection] = set()
        self._ending: deque[threading.Thread] = deque()
        self._lock = threading.Lock()
        self.dropped = 0

    def add(self, connection: Connection) -> None:
        """Note a stranger; the oldest one makes room for it."""
        while self._strangers_full():
            self.drop_oldest()
        with self._lock:
            self._strangers[connection] = None

    def admit(self, connection: Connection) -> bool:
        """Make a member of a stranger; gives whether there is room."""
        with self._lock:
            self._strangers.pop(connection, None)
            if len(self._members) >= self._limits.connections:
                self.dropped += 1
                return False
            self._members.add(connection)
            return True

    def remove(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        with self._lock:
            self._strangers.pop(connection, None)
            self._members.discard(connection)

    def drop_oldest(self) -> None:
        """End the oldest connection of a stranger, if there is one."""
        with self._lock:
            oldest = next(iter(self._strangers), None)
            if oldest is None:
                return
            del self._strangers[oldest]
            self.dropped += 1
            if oldest.thread is not None:
                self._ending.append(oldest.thread)
            # Otherwise a flood of connections would make threads faster than they end.
            awaited = self._ending.popleft() if len(self._ending) > self._limits.strangers else None
        cut(oldest.socket)
        if awaited is not None:
            awaited.join(1.0)

    def close(self, until: float) -> None:
        """End all connections, those with a request at work once it is answered or the deadline has passed."""
        with self._lock:
            open_now = [*self._strangers, *self._members]
        for connection in open_now:
            if not connection.busy:
                cut(connection.socket)
        for connection in open_now:
            if connection.thread is not None:
                connection.thread.join(max(0.0, until - time.monotonic()))
            cut(connection.socket)

    def _strangers_full(self) -> bool:
        with self._lock:
            return len(self._strangers) >= self._limits.strangers
