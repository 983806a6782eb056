"""Pool of workers that answers the requests of a server's users."""

from __future__ import annotations

import logging
import socket
import threading
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cerebro_spark.steering._errors import ServerError
from cerebro_spark.steering.runner._backoff import Backoff
from cerebro_spark.steering.runner._lanes import Lanes
from cerebro_spark.steering.runner._outbox import Outbox
from cerebro_spark.steering.runner._pool_request import PoolRequest
from cerebro_spark.steering.runner._runner import connect
from optimizer.errors import CerebroError, InvalidArgumentError
from udfs.names import check_name
from udfs.node import SupervisedThread
from udfs.requests import installed_handlers

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from cerebro_spark.hopper import SparkBackend
    from cerebro_spark.steering._http import Connection
    from udfs.requests import RequestHandler
    from udfs.store import Store

__all__ = ["Pool"]

_LOG = logging.getLogger(__name__)

# Seconds that a server may hold a request for requests.
_WAIT_S = 20
# For the outcomes that the server does not have yet, when the pool closes.
_DELIVERY_S = 10.0


class Pool:
    """Workers of a Spark session that train several searches and answer requests, such as launches and explanations.

    The pool asks the server for requests and listens on no port. Its searches and their results are in the store.
    While the server is away the pool goes on, and delivers its answers later.

    Parameters
    ----------
    backend : SparkBackend
        Workers that train, and their Spark session.
    store : Store
        Place of the prepared data and the runs.
    name : str, optional
        Name of the pool on the server. A pool of the same name replaces an earlier one. Default: that of the machine.
    allow_scripts : bool, optional
        Whether editors may run uploaded code as the user of this process. Default False.
    handlers : iterable of udfs.requests.RequestHandler, optional
        Handlers of requests. Default: those of the installed packages.

    Raises
    ------
    InvalidArgumentError
        The name is not valid.

    Examples
    --------
    >>> import tempfile
    >>> from pyspark.sql import SparkSession
    >>> from cerebro_spark import SparkBackend, Store
    >>> backend = SparkBackend(SparkSession.active(), num_workers=2)
    >>> with Pool(backend, Store.from_uri(tempfile.mkdtemp()), name="notebook") as pool:
    ...     pool.name  # before: pool.serve("http://127.0.0.1:8765")
    'notebook'
    """

    def __init__(
        self,
        backend: SparkBackend,
        store: Store,
        *,
        name: str = "",
        allow_scripts: bool = False,
        handlers: Iterable[RequestHandler] | None = None,
    ) -> None:
        self.name = check_name(name or socket.gethostname(), "a pool")
        self.backend, self.store, self.allows_scripts = backend, store, allow_scripts
        self.searches: dict[str, Any] = {}
        self.server = ""
        listed = installed_handlers().values() if handlers is None else handlers
        self._handlers = {handler.kind: handler for handler in listed}
        self._session = uuid.uuid4().hex
        self._path = f"runner/pools/{quote(self.name, safe='')}"
        self._closing = threading.Event()
        # By id: requests that are not finished, and all that were ever received.
        self._open: dict[str, PoolRequest] = {}
        self._known: set[str] = set()
        self._lanes = Lanes(self._answer)
        self._connection: Connection | None = None
        self._outbox: Outbox | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def serve(self, server: str) -> Self:
        """Answer the requests of a server's users in background threads, and return at once.

        Parameters
        ----------
        server : str
            Address of the server, such as ``"http://127.0.0.1:8765"``; it need not answer yet.

        Raises
        ------
        InvalidArgumentError
            ``server`` is no address, or the pool serves one already.
        TokenFileError
            Other users of the machine can read the token file.
        """
        if self._connection is not None:
            raise InvalidArgumentError(f"server must be that of another pool, got {server!r}: this one serves already.")
        self._connection = connect(server)
        self.server = self._connection.server
        self._outbox = Outbox(self._connection, self._session)
        self._outbox.start()
        SupervisedThread(self._poll, f"requests of pool {self.name}").start()
        return self

    def close(self) -> None:
        """Abandon the open requests, deliver the outcomes of the others, and leave the server. Searches go on."""
        if self._closing.is_set():
            return
        self._closing.set()
        for request in list(self._open.values()):
            request.abandon()
        self._lanes.close()
        if self._connection is not None and self._outbox is not None:
            self._outbox.close(_DELIVERY_S)
            with suppress(CerebroError):
                self._connection.request("DELETE", f"{self._path}?session={self._session}")

    def context(self) -> PoolRequest:
        """Return the context of work of the pool itself, which no user has requested.

        Raises
        ------
        InvalidArgumentError
            The pool serves no server yet.
        """
        if self._connection is None or self._outbox is None:
            raise InvalidArgumentError("pool must serve a server, got one that does not. Call serve first.")
        record = {"id": "", "number": 0, "kind": "", "user": "", "document": {}}
        return PoolRequest(record, self, self._connection, self._outbox)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the pool is closed, or another one has replaced it; return False after the time.

        Parameters
        ----------
        timeout_s : float, optional
            Default: no limit.
        """
        return self._closing.wait(timeout_s)

    def _poll(self) -> None:
        """Ask for requests and cancellations until the pool closes."""
        assert self._connection is not None  # serve() has set it
        backoff, after, is_registered, was_away = Backoff(), 0, False, False
        while not self._closing.is_set():
            try:
                if not is_registered:
                    self._connection.request("PUT", self._path, self._settings())
                    is_registered, after = True, 0
                query = f"wait={_WAIT_S}&session={self._session}&after={after}"
                reply = self._connection.request("GET", f"{self._path}/requests?{query}")
                after = max([after, *(self._receive(record) for record in reply["requests"])])
                for ident in reply["cancelled"]:
                    self._cancel(ident)
            except ServerError as error:
                # A server that was restarted, or lost its database, gets the settings again.
                is_registered = False
                if self._closing.is_set():
                    return
                if error.code == "replaced":
                    _LOG.error("pool %s ends: another runner has its name on %s", self.name, self.server)
                    self.close()
                    return
                if not was_away:
                    _LOG.warning("pool %s goes on without its server: %s", self.name, error)
                was_away = True
                self._closing.wait(backoff.next())
            else:
                if was_away:
                    _LOG.warning("pool %s answers requests of %s again", self.name, self.server)
                was_away = False
                backoff.reset()

    def _settings(self) -> dict[str, Any]:
        return {
            "master": str(self.backend.spark.conf.get("spark.master", "") or "") if self.backend.spark else "",
            "workers": self.backend.num_workers,
            "store": self.store.uri,
            "kinds": sorted(self._handlers),
            "scripts": self.allows_scripts,
            "session": self._session,
        }

    def _receive(self, record: dict[str, Any]) -> int:
        """Queue a request unless it is known, and return its number."""
        ident = str(record["id"])
        if ident not in self._known:
            self._known.add(ident)
            assert self._connection is not None  # serve() has set them
            assert self._outbox is not None
            request = PoolRequest(record, self, self._connection, self._outbox)
            self._open[ident] = request
            self._lanes.put(request.kind, request)
        return int(record["number"])

    def _cancel(self, ident: str) -> None:
        # Its thread may end the request meanwhile.
        if request := self._open.get(ident):
            request.cancel()
        assert self._outbox is not None  # serve() has set it
        self._outbox.put(ident, {"state": "cancelled"})

    def _answer(self, request: PoolRequest) -> None:
        """Run the handler of a request."""
        began = time.monotonic()
        try:
            request.answer(self._handlers.get(request.kind))
        finally:
            self._open.pop(request.id, None)
            _LOG.info("request %s (%s) took %.3f s", request.number, request.kind, time.monotonic() - began)
