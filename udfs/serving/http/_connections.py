"""Connections of a front end, within limits of their number and of the time for a request's head."""

from __future__ import annotations

import math
import resource
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

    from starlette.types import Scope

    from udfs.serving.http._limits import HttpLimits

__all__ = ["Connections", "LimitedProtocol", "admit"]

_CONNECTION = "cerebro.connection"

# Descriptors of the process per connection, and connections per peer without a valid request.
_DESCRIPTORS_PER_CONNECTION, _CONNECTIONS_PER_STRANGER = 2, 8


class Connections:
    """Open connections of a front end.

    A *stranger* is a connection without a valid request so far: silent, slow, or without the token. At most an eighth
    of the largest number of connections may be strangers; a further one replaces the oldest.

    Parameters
    ----------
    limits : HttpLimits
        Number of connections, at most half of the descriptors of this process, and seconds for the head of a request.
    """

    def __init__(self, limits: HttpLimits) -> None:
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        allowed = math.inf if descriptors < 0 else descriptors // _DESCRIPTORS_PER_CONNECTION
        self.most = max(1, int(min(limits.connections, allowed)))
        self.most_strangers = max(1, self.most // _CONNECTIONS_PER_STRANGER)
        self.head_s = limits.head_s
        self._strangers: dict[LimitedProtocol, None] = {}  # oldest first
        self._members: dict[LimitedProtocol, None] = {}  # least recently used first

    def add(self, connection: LimitedProtocol) -> None:
        """Register a new connection; close the oldest stranger, or an idle member, if there are too many."""
        self._strangers[connection] = None
        if len(self._strangers) > self.most_strangers:
            next(iter(self._strangers)).cut()
        elif len(self._strangers) + len(self._members) > self.most:
            idle = (member for member in self._members if member.is_idle)
            next(idle, next(iter(self._strangers))).cut()

    def admit(self, connection: LimitedProtocol) -> None:
        """Record a valid request on a connection."""
        if connection in self._strangers or connection in self._members:
            self.remove(connection)
            self._members[connection] = None

    def remove(self, connection: LimitedProtocol) -> None:
        """Remove a closed connection."""
        self._strangers.pop(connection, None)
        self._members.pop(connection, None)


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 connection that is closed if the head of a request takes too long."""

    def __init__(self, *args: Any, registry: Connections, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._registry = registry
        self._head_timer: asyncio.TimerHandle | None = None
        app = self.app

        async def run_app(scope: Any, receive: Any, send: Any) -> None:
            scope[_CONNECTION] = self
            await app(scope, receive, send)

        self.app = run_app

    @property
    def is_idle(self) -> bool:
        """True between two requests."""
        return self.cycle is None or bool(self.cycle.response_complete)

    def admit(self) -> None:
        """Record a valid request."""
        self._registry.admit(self)

    def cut(self) -> None:
        """Close the connection at once."""
        self._registry.remove(self)
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Register the connection."""
        super().connection_made(transport)
        self._registry.add(self)
        self._time_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection."""
        self._registry.remove(self)
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        if self.is_idle and not self.transport.is_closing():
            self._time_head()
        else:
            self._stop_timer()

    def _time_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self._registry.head_s, self.cut)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def admit(scope: Scope) -> None:
    """Record a valid request on its connection."""
    connection = scope.get(_CONNECTION)
    if isinstance(connection, LimitedProtocol):
        connection.admit()
