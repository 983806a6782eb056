"""Request that a pool answers: what its handler may use, and its outcome."""

from __future__ import annotations

import logging
import re
import threading
import traceback
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from cerebro_spark.steering._errors import ServerError
from cerebro_spark.steering.runner._backoff import Backoff
from cerebro_spark.steering.runner._runner import is_refusal
from optimizer.errors import CerebroError, InvalidArgumentError
from udfs.requests import RequestCancelled, plain_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cerebro_spark.steering._http import Connection
    from cerebro_spark.steering.runner._outbox import Outbox
    from udfs.requests import RequestHandler
    from udfs.store import Store

__all__ = ["PoolRequest", "PoolResources"]

_LOG = logging.getLogger(__name__)

_LONGEST_MESSAGE = 5000
_DIGEST = re.compile(r"[0-9a-f]{64}")
# Folder of the store.
_BLOBS = "blobs"


class PoolResources(Protocol):
    """Attributes of a pool that its requests use."""

    name: str
    server: str
    backend: Any
    store: Store
    searches: dict[str, Any]
    allows_scripts: bool


class PoolRequest:
    """Request, and the :class:`udfs.requests.RequestContext` of its handler.

    Parameters
    ----------
    record : mapping
        Record of the server.
    pool : PoolResources
        Pool that answers.
    connection : Connection
        Server.
    outbox : Outbox
        Takes progress and the outcome.
    """

    def __init__(self, record: Mapping[str, Any], pool: PoolResources, connection: Connection, outbox: Outbox) -> None:
        self.id, self.number, self.kind = str(record["id"]), int(record["number"]), str(record["kind"])
        self.user = str(record["user"])
        self.pool = pool
        self._document: dict[str, Any] = dict(record["document"])
        self._connection, self._outbox = connection, outbox
        self._cancelled = threading.Event()
        self._is_abandoned = False

    @property
    def spark(self) -> Any:
        """Spark session of the pool."""
        return self.pool.backend.spark

    @property
    def backend(self) -> Any:
        """Backend of the pool's searches."""
        return self.pool.backend

    @property
    def store(self) -> Any:
        """Store of the pool."""
        return self.pool.store

    @property
    def searches(self) -> Mapping[str, Any]:
        """Running and ended searches of the pool by the name of their run."""
        return MappingProxyType(self.pool.searches)

    @property
    def allows_scripts(self) -> bool:
        """True if the pool runs code that users upload."""
        return self.pool.allows_scripts

    def blob(self, sha256: str) -> bytes:
        """Return the content of an uploaded file.

        Files that a search needs to continue are in the store, see :meth:`keep_blob`.

        Raises
        ------
        InvalidArgumentError
            The server has no such file.
        """
        if not _DIGEST.fullmatch(str(sha256)):
            raise InvalidArgumentError(f"sha256 must be that of an uploaded file, got {str(sha256)[:100]!r}.")
        if self.store.exists(_BLOBS, sha256):
            return bytes(self.store.read(_BLOBS, sha256))
        backoff = Backoff()
        while True:
            self.check_cancelled()
            try:
                return self._connection.download(f"runner/blobs/{quote(str(sha256), safe='')}")
            except ServerError as error:
                if is_refusal(error):
                    raise InvalidArgumentError(f"{error} Upload it again.") from error
            # The server is away: its users wait for it, too.
            self._cancelled.wait(backoff.next())

    def keep_blob(self, sha256: str) -> None:
        """Copy an uploaded file to the store, from which :meth:`blob` reads it while the server is away."""
        self.store.write(self.blob(sha256), _BLOBS, sha256)

    def report(self, progress: dict[str, Any]) -> None:
        """Send progress to the user; raise :class:`RequestCancelled` if the user has cancelled the request."""
        self.check_cancelled()
        if self.id:
            self._outbox.put(self.id, {"state": "running", "progress": plain_json(progress)}, self.cancel)

    def check_cancelled(self) -> None:
        """Raise :class:`RequestCancelled` if the user has cancelled the request, or the pool closes."""
        if self._cancelled.is_set():
            raise RequestCancelled(f"request {self.number} is cancelled")

    def cancel(self) -> None:
        """Make the handler's next call of this context raise."""
        self._cancelled.set()

    def abandon(self) -> None:
        """Cancel the request because the pool closes: it has no outcome, so that the next pool gets it if it may."""
        self._is_abandoned = True
        self.cancel()

    def answer(self, handler: RequestHandler | None) -> None:
        """Run the handler, and report the outcome. Raises no error."""
        try:
            self.check_cancelled()
            self._outbox.put(self.id, {"state": "running"}, self.cancel)
            outcome = _handled(handler, self.kind, self._document, self)
        except RequestCancelled:
            if self._is_abandoned:
                return
            outcome = {"state": "cancelled"}
        except CerebroError as error:
            outcome = _failed(str(error))
        except Exception as error:  # noqa: BLE001 - a handler that fails ends its request alone
            _LOG.exception("request %s (%s) failed", self.number, self.kind)
            outcome = _failed(traceback.format_exception_only(error)[-1].strip())
        self._outbox.put(self.id, outcome)


def _handled(
    handler: RequestHandler | None, kind: str, document: Mapping[str, Any], context: PoolRequest
) -> dict[str, Any]:
    if handler is None:
        raise InvalidArgumentError(f"kind must be one that this pool offers, got {kind!r}.")
    return {"state": "done", "result": plain_json(handler.handle(document, context))}


def _failed(message: str) -> dict[str, Any]:
    return {"state": "failed", "message": message[:_LONGEST_MESSAGE]}
