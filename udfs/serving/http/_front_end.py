"""A front end in a thread of this process."""

from __future__ import annotations

import asyncio
import errno
import secrets
import socket
import threading
from typing import TYPE_CHECKING, Literal, Self

import uvicorn

from optimizer.errors import InvalidArgumentError
from udfs.serving.http._app import application
from udfs.serving.http._errors import PortTakenError
from udfs.serving.http._limits import HttpLimits
from udfs.serving.http._traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from udfs.serving import Router
    from udfs.serving.http._prometheus import Gauge

__all__ = ["FrontEnd", "check_address"]

_BACKLOG = 2048
_START_S = 30.0
_DRAIN_S = 5
_PORTS = 65_535
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}  # noqa: S104 - only compared with


class FrontEnd:
    """A router's models over HTTP, by the Open Inference Protocol (KServe V2).

    Parameters
    ----------
    router : Router
        Answers the requests; it is not closed here.
    host : str, optional
        Address to listen at. Default: this machine alone.
    port : int, optional
        Default 8080; 0 takes a free one.
    token : str or False, optional
        What clients send as ``Authorization: Bearer``. By default one is drawn; ``False`` lets everybody ask.
    limits : HttpLimits, optional
    gauges : callable, optional
        Gives the backend's numbers for ``/metrics`` and the live page; called for each of them.

    Attributes
    ----------
    host : str
    port : int
        The one that is listened at, once started.
    url : str
        Where clients of this machine find it.
    token : str or None
        ``None``: none is asked for.

    Raises
    ------
    InvalidArgumentError
        A port, token or host that cannot be.
    PortTakenError
        At the start, where another process listens there.

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
        _check_port(port)
        self.host, self.port, self.token = host, port, _checked(token)
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        app = application(router, Traffic(), limits or HttpLimits(), self.token, gauges, self._started.set)
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                loop="asyncio",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=_DRAIN_S,
            )
        )

    @property
    def url(self) -> str:
        """Where clients of this machine find it."""
        host = _ANYWHERE.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def start(self) -> Self:
        """Listen and answer, until :meth:`close`.

        Raises
        ------
        PortTakenError
            Another process listens there.
        InvalidArgumentError
            The host is no address of this machine, or the port needs more rights.
        """
        if self._thread is not None:
            raise InvalidArgumentError("this front end was started already: make another one")
        self._socket = _listening(self.host, self.port)
        self.port = self._socket.getsockname()[1]
        # A daemon: a driver that ends without closing it ends all the same.
        self._thread = threading.Thread(target=self._run, name=f"front-end-{self.port}", daemon=True)
        self._thread.start()
        if not self._started.wait(_START_S):
            self.close()
            raise TimeoutError(f"the front end did not start within {_START_S:g} s")
        return self

    def close(self) -> None:
        """Take no more requests, wait a few seconds for those that are in flight, and end."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(_DRAIN_S + 5)
        if self._socket is not None:
            self._socket.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket] if self._socket else None))


def check_address(host: str, port: int, token: str | Literal[False] | None) -> None:
    """Try whether a front end could start there, before anything that takes longer.

    Raises
    ------
    PortTakenError
        Another process listens there.
    InvalidArgumentError
        A host, port or token that cannot be.
    """
    _check_port(port)
    _checked(token)
    _listening(host, port).close()


def _check_port(port: int) -> None:
    if type(port) is not int or not 0 <= port <= _PORTS:
        raise InvalidArgumentError(f"port is {port!r}; give a number up to {_PORTS}, or 0 for a free port")


def _checked(token: str | Literal[False] | None) -> str | None:
    if token is None:
        return secrets.token_urlsafe(32)
    if token is False:
        return None
    plain = isinstance(token, str) and token.isascii() and token.isprintable() and " " not in token
    if not plain or not token:
        raise InvalidArgumentError("token is a text of printable ASCII without spaces, or False for none")
    return token


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortTakenError(
                f"port {port} of {host} is taken by another process: name another port, or 0 for a free one"
            ) from error
        raise InvalidArgumentError(f"cannot listen at {host} port {port}: {error.strerror or error}") from error
    # Head and body of a response are two packets: the second one would wait for the client's delayed acknowledgement,
    # 40 ms. asyncio sees to it only where a socket names its protocol, and this one does not.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
