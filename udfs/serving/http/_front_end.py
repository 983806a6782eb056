"""HTTP front end in a thread of this process."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Literal, Self

from optimizer.errors import InvalidArgumentError
from udfs.node import SupervisedThread
from udfs.serving.http._address import check_port, listening, token_of, url_of
from udfs.serving.http._app import DRAIN_S, application, http_server
from udfs.serving.http._limits import HttpLimits
from udfs.serving.http._monitor import Monitor
from udfs.serving.http._traffic import Traffic

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable

    from udfs.serving import Router
    from udfs.serving.http._prometheus import Gauge

__all__ = ["FrontEnd"]

_START_S = 30.0


class FrontEnd:
    """HTTP front end of a router, by the Open Inference Protocol (KServe V2).

    Parameters
    ----------
    router : Router
        Router that answers the requests; closing the front end does not close it.
    host : str, optional
        Address to listen at. Default: this machine alone.
    port : int, optional
        Port; 0 takes a free one. Default 8080.
    token : str or False, optional
        Token that clients send as ``Authorization: Bearer``. Default: a random one. ``False`` requires none.
    limits : HttpLimits, optional
        Limits of requests.
    gauges : callable, optional
        Returns the gauges for ``/metrics`` and the live page; called for each of these.

    Attributes
    ----------
    host : str
        Address that it listens at.
    port : int
        Port that it listens at, once started.
    token : str or None
        Token that clients must send; ``None`` for none.

    Raises
    ------
    InvalidArgumentError
        The port, token or host is not valid.
    PortTakenError
        Another process listens at the port; raised by :meth:`start`.

    Examples
    --------
    >>> from udfs.serving.http import FrontEnd
    >>> class NoModels:
    ...     models, ready = (), True
    >>> with FrontEnd(NoModels(), port=0) as front:
    ...     front.url.startswith("http://127.0.0.1:"), len(front.token)
    (True, 43)
    """

    def __init__(
        self,
        router: Router,
        *,
        host: str = "127.0.0.1",
        port: int = 8080,
        token: str | Literal[False] | None = None,
        limits: HttpLimits | None = None,
        gauges: Callable[[], Iterable[Gauge]] | None = None,
    ) -> None:
        check_port(port)
        self.host, self.port, self.token = host, port, token_of(token)
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        traffic = Traffic()
        monitor = Monitor(router, traffic, gauges)
        self._limits = limits or HttpLimits()
        self._app = application(router, traffic, monitor, self._limits, self.token, self._started.set)
        self._closing = False
        self._server = http_server(self._app, self._limits)

    @property
    def url(self) -> str:
        """URL for clients on this machine."""
        return url_of(self.host, self.port)

    def start(self) -> Self:
        """Start to listen and answer, until :meth:`close`.

        Raises
        ------
        PortTakenError
            Another process listens at the port.
        InvalidArgumentError
            The host is not an address of this machine, or the port needs more rights.
        """
        if self._thread is not None:
            raise InvalidArgumentError("A front end can be started once. Create another one.")
        self._socket = listening(self.host, self.port)
        self.port = self._socket.getsockname()[1]
        # A daemon thread, so that a driver can end without closing the front end.
        self._thread = SupervisedThread(self._run, f"front-end-{self.port}")
        self._thread.start()
        if not self._started.wait(_START_S):
            self.close()
            raise TimeoutError(f"The front end did not start within {_START_S:g} s.")
        return self

    def refresh(self) -> None:
        """Do nothing: each request reads the router's list of models."""

    def close(self) -> None:
        """Refuse new requests, wait a few seconds for those in flight, and stop."""
        self._closing = self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(DRAIN_S + 5)
        if self._socket is not None:
            self._socket.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        if self._server.started:
            # It failed, and another one takes its place at the socket.
            self._server = http_server(self._app, self._limits)
            self._server.should_exit = self._closing
        asyncio.run(self._server.serve(sockets=[self._socket] if self._socket else None))
