"""Methods of the client for pools of workers and the requests that they answer."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cerebro_spark.steering._http import Connection

__all__ = ["RequestMethods"]

_OPEN = ("pending", "running")
# Below the patience of a connection.
_WAIT_S = 20.0


class RequestMethods:
    """Methods of :class:`Client` for pools and requests."""

    _connection: Connection

    def pools(self) -> list[dict[str, Any]]:
        """Return the pools of workers: their names, workers, stores, kinds of requests, and whether they are live."""
        return list(self._connection.request("GET", "pools")["pools"])

    def request(
        self,
        kind: str,
        document: Mapping[str, Any],
        pool: str | None = None,
        *,
        replaces: str | None = None,
        key: str = "",
    ) -> dict[str, Any]:
        """Send a request to a pool, and return its record; :meth:`wait_for` waits for the result.

        Parameters
        ----------
        kind : str
            Kind of the request, such as ``"schema"``, ``"plan"`` or ``"launch"``.
        document : mapping
            What is asked, as JSON data.
        pool : str, optional
            Name of the pool. Default: the only live one that offers the kind.
        replaces : str, optional
            ``id`` of an earlier request to cancel. Default: none.
        key : str, optional
            Key that makes repetitions one request. Default: a new one.

        Returns
        -------
        dict
            Record with ``id``, ``number``, ``state`` and ``revision``.
        """
        body = {"kind": kind, "document": dict(document), "pool": pool, "replaces": replaces}
        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        return dict(self._connection.request("POST", "requests", body, headers)["request"])

    def requests(self, *, kind: str = "", pool: str = "", run: str = "") -> list[dict[str, Any]]:
        """Return the latest requests in their order, without progress and results.

        Parameters
        ----------
        kind : str, optional
            Kind of the requests. Default: any.
        pool : str, optional
            Name of the pool. Default: any.
        run : str, optional
            Run that the requests are about. Default: any.
        """
        query = urlencode({"kind": kind, "pool": pool, "run": run})
        return list(self._connection.request("GET", f"requests?{query}")["requests"])

    def wait_for(self, request_id: str, timeout_s: float | None = None) -> dict[str, Any]:
        """Wait until a request is done, has failed or is cancelled, and return its record.

        Parameters
        ----------
        request_id : str
            ``id`` of its record.
        timeout_s : float, optional
            Seconds to wait. Default: no limit.

        Returns
        -------
        dict
            Record with ``state``, ``result`` and ``message``.

        Raises
        ------
        TimeoutError
            The request is not finished; its pool may be away.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        revision = -1
        while True:
            wait_s = _WAIT_S if until is None else max(0.0, min(_WAIT_S, until - time.monotonic()))
            query = urlencode({"wait": f"{wait_s:.3f}", "revision": revision})
            record = dict(self._connection.request("GET", f"{_place(request_id)}?{query}")["request"])
            if record["state"] not in _OPEN:
                return record
            revision = record["revision"]
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"request {request_id} is still {record['state']} after {timeout_s:g} s.")

    def cancel(self, request_id: str) -> dict[str, Any]:
        """Cancel a request that waits or runs.

        Parameters
        ----------
        request_id : str
            ``id`` of its record.
        """
        return dict(self._connection.request("DELETE", _place(request_id))["request"])

    def upload(self, content: bytes) -> dict[str, Any]:
        """Upload a file of at most 16 MiB, such as an image or a script, and return ``sha256`` and ``size``.

        Parameters
        ----------
        content : bytes
            Content of the file.
        """
        return self._connection.upload("blobs", content)


def _place(request_id: str) -> str:
    return f"requests/{quote(request_id, safe='')}"
