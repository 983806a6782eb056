"""Reports of requests on their way to the server."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cerebro_spark.steering._errors import ServerError
from cerebro_spark.steering.runner._backoff import Backoff
from cerebro_spark.steering.runner._runner import is_refusal
from optimizer.errors import CerebroError
from udfs.node import SupervisedThread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cerebro_spark.steering._http import Connection

__all__ = ["Outbox"]

_LOG = logging.getLogger(__name__)

# Shortest time between two rounds of reports: progress in between is replaced by the latest.
_ROUND_S = 0.2


class Outbox:
    """Latest report of each request, sent by a thread until the server has it.

    Parameters
    ----------
    connection : Connection
        Server.
    session : str
        Name of the process.
    """

    def __init__(self, connection: Connection, session: str) -> None:
        self._connection, self._session = connection, session
        self._changed = threading.Condition()
        self._reports: dict[str, dict[str, Any]] = {}
        self._cancel: dict[str, Callable[[], object]] = {}
        self._closing = False

    def start(self) -> None:
        """Start the thread."""
        SupervisedThread(self._send_all, "reports of requests").start()

    def put(self, ident: str, report: Mapping[str, Any], on_cancelled: Callable[[], object] | None = None) -> None:
        """Replace the report of a request that is not sent yet; the progress of the former one stays.

        Parameters
        ----------
        ident : str
            Id of the request.
        report : mapping
            ``state``, and ``progress``, ``result`` and ``message`` if there are any.
        on_cancelled : callable, optional
            Called if the server answers that the user has cancelled the request.
        """
        with self._changed:
            # An outcome is final: the acknowledgement of a late cancellation does not replace it.
            former = self._reports.get(ident, {})
            if former.get("state") not in {"done", "failed"}:
                self._reports[ident] = {**former, **report}
            if on_cancelled is not None:
                self._cancel[ident] = on_cancelled
            self._changed.notify_all()

    def close(self, limit_s: float) -> None:
        """Wait until all reports are delivered, for a limited time, and end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            if not self._changed.wait_for(lambda: not self._reports, limit_s):
                _LOG.warning("outcomes of %d requests could not be delivered", len(self._reports))
                self._reports.clear()

    def _send_all(self) -> None:
        backoff = Backoff()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._reports or self._closing)
                if not self._reports:
                    return
                reports = dict(self._reports)
            delays = [0.0 if self._send(ident, report) else backoff.next() for ident, report in reports.items()]
            if not any(delays):
                backoff.reset()
            time.sleep(max(_ROUND_S, *delays))

    def _send(self, ident: str, report: dict[str, Any]) -> bool:
        """Send a report; return False if it has to be sent again."""
        try:
            path = f"runner/requests/{quote(ident, safe='')}?session={self._session}"
            is_cancelled = self._connection.request("POST", path, report).get("cancelled")
        except ServerError as error:
            if not is_refusal(error):
                return False
            _LOG.warning("the report of request %s was not accepted: %s", ident, error)
            is_cancelled = True
        except CerebroError:
            return False
        with self._changed:
            if self._reports.get(ident) is report:
                del self._reports[ident]
            cancel = self._cancel.get(ident)
            if report["state"] != "running":
                self._cancel.pop(ident, None)
            self._changed.notify_all()
        if is_cancelled and cancel is not None:
            cancel()
        return True
