"""Open connections of an endpoint, with separate limits for members of the run and for unauthenticated peers."""

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
    """Connection and the thread that serves it."""

    socket: socket.socket  # accepted connection
    peer: str  # address of the peer, host:port
    thread: threading.Thread | None = None  # thread that serves the connection, once it is started
    busy: bool = False  # whether a request is being answered


class Connections:
    """Open connections of an endpoint, within its limits. The class is thread-safe.

    A *stranger* is a connection whose peer has not proved yet that it knows the secret of the run; a *member* has.

    Attributes
    ----------
    dropped : int
        Number of connections that were closed because a limit was reached.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._strangers: dict[Connection, None] = {}  # oldest first
        self._members: set[Connection] = set()
        self._ending: deque[threading.Thread] = deque()
        self._lock = threading.Lock()
        self.dropped = 0

    def add(self, connection: Connection) -> None:
        """Register a new connection as a stranger; drop the oldest strangers if there are too many."""
        while self._strangers_full():
            self.drop_oldest()
        with self._lock:
            self._strangers[connection] = None

    def admit(self, connection: Connection) -> bool:
        """Turn a stranger into a member; return False if there are too many members."""
        with self._lock:
            self._strangers.pop(connection, None)
            if len(self._members) >= self._limits.connections:
                self.dropped += 1
                return False
            self._members.add(connection)
            return True

    def remove(self, connection: Connection) -> None:
        """Remove a closed connection."""
        with self._lock:
            self._strangers.pop(connection, None)
            self._members.discard(connection)

    def drop_oldest(self) -> None:
        """Shut down the oldest connection of a stranger, if there is any."""
        with self._lock:
            oldest = next(iter(self._strangers), None)
            if oldest is None:
                return
            del self._strangers[oldest]
            self.dropped += 1
            if oldest.thread is not None:
                self._ending.append(oldest.thread)
            # Without this wait, a flood of connections would start threads faster than they end.
            awaited = self._ending.popleft() if len(self._ending) > self._limits.strangers else None
        cut(oldest.socket)
        if awaited is not None:
            awaited.join(1.0)

    def close(self, until: float) -> None:
        """Shut down all connections; wait for requests in progress until the deadline."""
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
