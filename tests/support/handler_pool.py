"""Pool of a test without Spark: real handlers behind a real server."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from udfs.requests import RequestCancelled, plain_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from udfs.requests import RequestHandler

__all__ = ["HandlerPool"]

_API = "/api/v1/runner"
# Requests of this kind wait for each other.
_QUEUED = "explain"


class HandlerPool:
    """Runner that answers requests by handlers, those of the kind ``explain`` one after the other, until it is closed.

    Parameters
    ----------
    port : int
        Port of the server.
    token : str
        Access token with the role ``runner``.
    *handlers : RequestHandler
        Handlers of the kinds of requests.
    name : str, optional
        Name of the pool.
    **settings
        Further settings of the pool.
    """

    def __init__(self, port: int, token: str, *handlers: RequestHandler, name: str = "pool", **settings: Any) -> None:
        self._url, self._token, self._name = f"http://127.0.0.1:{port}{_API}", token, name
        self._handlers = {handler.kind: handler for handler in handlers}
        self._queue, self._stopped, self._after = threading.Lock(), threading.Event(), 0
        self._threads: list[threading.Thread] = []
        self.cancelled = set[str]()
        self._ask("PUT", f"pools/{name}", {**settings, "kinds": list(self._handlers), "session": "s"})
        self._start(self._serve)

    def close(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive()

    def _start(self, call: Any, *values: Any) -> None:
        self._threads.append(thread := threading.Thread(target=call, args=values, daemon=True))
        thread.start()

    def _serve(self) -> None:
        while not self._stopped.is_set():
            due = self._ask("GET", f"pools/{self._name}/requests?session=s&wait=0.5&after={self._after}")
            self.cancelled.update(due["cancelled"])
            for record in due["requests"]:
                self._after = max(self._after, record["number"])
                self._start(self._answer, record)

    def _answer(self, record: Mapping[str, Any]) -> None:
        if record["kind"] == _QUEUED:
            with self._queue:
                self._handle(record)
        else:
            self._handle(record)

    def _handle(self, record: Mapping[str, Any]) -> None:
        context = _Context(self, record)
        try:
            context.check_cancelled()
            result = self._handlers[record["kind"]].handle(record["document"], context)
            outcome = {"state": "done", "result": plain_json(result)}
        except RequestCancelled:
            return
        except Exception as error:
            outcome = {"state": "failed", "message": str(error)}
        self.report(record["id"], outcome)

    def report(self, ident: str, outcome: dict[str, Any]) -> None:
        if self._ask("POST", f"requests/{ident}?session=s", outcome)["cancelled"]:
            self.cancelled.add(ident)

    def blob(self, sha256: str) -> bytes:
        return self._read("GET", f"blobs/{sha256}")

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        text = self._read(method, path, body)
        return json.loads(text) if text else None

    def _read(self, method: str, path: str, body: Any = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self._url}/{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.read()


class _Context:
    """Context of a request; spark, store and searches are missing."""

    def __init__(self, pool: HandlerPool, record: Mapping[str, Any]) -> None:
        self._pool, self._id, self.user = pool, record["id"], record["user"]
        self.searches: dict[str, Any] = {}

    def blob(self, sha256: str) -> bytes:
        return self._pool.blob(sha256)

    def report(self, progress: dict[str, Any]) -> None:
        self._pool.report(self._id, {"state": "running", "progress": plain_json(progress)})
        self.check_cancelled()

    def check_cancelled(self) -> None:
        if self._id in self._pool.cancelled:
            raise RequestCancelled
