"""Handlers of requests, and the context that they run in."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Protocol

from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["HANDLERS", "RequestContext", "RequestHandler", "installed_handlers"]

HANDLERS = "cerebro_spark.requests"
"""Entry point group of handlers."""

_LOG = logging.getLogger(__name__)

_KIND = re.compile(r"[a-z][a-z_]{0,49}")


class RequestContext(Protocol):
    """Resources of the pool that a handler may use, and the link to the user who waits.

    Examples
    --------
    >>> def count_rows(document, context):
    ...     context.report({"fraction": 0.0})
    ...     return {"rows": context.spark.read.parquet(document["table"]).count()}
    """

    @property
    def id(self) -> str:
        """Id of the request."""

    @property
    def spark(self) -> Any:
        """Spark session of the pool."""

    @property
    def store(self) -> Any:
        """Store of the pool, a :class:`udfs.store.Store`."""

    @property
    def backend(self) -> Any:
        """Backend of the pool's searches."""

    @property
    def user(self) -> str:
        """Name of the user who sent the request."""

    @property
    def searches(self) -> Mapping[str, Any]:
        """Running and ended searches of the pool by the name of their run."""

    @property
    def allows_scripts(self) -> bool:
        """True if the pool runs code that users upload."""

    def blob(self, sha256: str) -> bytes:
        """Return the content of an uploaded file.

        Raises
        ------
        InvalidArgumentError
            The server has no such file.
        """

    def report(self, progress: dict[str, Any]) -> None:
        """Send progress to the user; frequent reports replace each other before they are sent.

        Raises
        ------
        RequestCancelled
            The user has cancelled the request.
        """

    def check_cancelled(self) -> None:
        """Raise :class:`RequestCancelled` if the user has cancelled the request."""


@dataclass(frozen=True)
class RequestHandler:
    """Function that answers the requests of a kind.

    Parameters
    ----------
    kind : str
        Kind of the requests: lower-case letters and ``_``.
    handle : callable
        ``handle(document, context)`` returns the result, plain data. An ``InvalidArgumentError`` is shown to the user
        as it is; of another error the user sees the last line of the traceback.

    Raises
    ------
    InvalidArgumentError
        The kind is not valid.

    Examples
    --------
    >>> handler = RequestHandler("echo", lambda document, context: {"echo": document["text"], "to": context.user})
    >>> handler.kind
    'echo'
    """

    kind: str
    handle: Callable[[Mapping[str, Any], RequestContext], dict[str, Any]]

    def __post_init__(self) -> None:
        if not _KIND.fullmatch(self.kind):
            raise InvalidArgumentError(f"kind must have lower-case letters and '_', got {self.kind!r}.")


def installed_handlers() -> dict[str, RequestHandler]:
    """Return the handlers of the installed packages by kind: the objects of the entry points in :data:`HANDLERS`.

    Handlers whose optional packages are missing are left out, and logged.

    Raises
    ------
    InvalidArgumentError
        An entry point is no handler, or two have the same kind.

    Examples
    --------
    >>> all(handler.kind == kind for kind, handler in installed_handlers().items())
    True
    """
    handlers: dict[str, RequestHandler] = {}
    for point in sorted(entry_points(group=HANDLERS)):
        try:
            handler = point.load()
        except ImportError as error:
            _LOG.warning("requests of kind %s are not answered: %s", point.name, error)
            continue
        if not isinstance(handler, RequestHandler) or handler.kind in handlers:
            raise InvalidArgumentError(f"entry points of {HANDLERS} must be handlers of different kinds, got {point}.")
        handlers[handler.kind] = handler
    return handlers
