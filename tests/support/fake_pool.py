"""Pool of workers without Spark: answers requests over the REST API, and starts runs of a fake runner."""

from __future__ import annotations

import http.client
import json
import threading
from typing import TYPE_CHECKING, Any

from fake_runner import FakeRunner

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["COLUMNS", "FakePool"]

_KINDS = ["schema", "plan", "script", "launch"]
COLUMNS = {"age": "int", "hours <b>": "double", "image": "binary", "label": "int"}
"""Types of the columns of each table, one of which has a name that must not become markup."""


class FakePool:
    """Pool that answers in a thread until it is closed.

    Parameters
    ----------
    port : int
        Port of the server.
    token : str
        Access token with the role ``runner``.
    **settings
        Settings of the pool, in place of the usual ones.
    """

    def __init__(self, port: int, token: str, **settings: Any) -> None:
        self._port, self._token = port, token
        self.answered: list[tuple[str, dict[str, Any]]] = []
        self.runners: dict[str, FakeRunner] = {}
        usual = {"master": "local[2]", "workers": 2, "store": "file:///data", "kinds": _KINDS, "scripts": True}
        self._ask("PUT", "pools/p1", {**usual, "session": "s1", **settings})
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread."""
        self._closing.set()
        self._thread.join(10)
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        last = 0
        while not self._closing.is_set():
            for record in self._ask("GET", f"pools/p1/requests?session=s1&wait=0.2&after={last}")["requests"]:
                last = record["number"]
                self._answer(record)

    def _answer(self, record: Mapping[str, Any]) -> None:
        kind, document = record["kind"], record["document"]
        self.answered.append((kind, document))
        try:
            outcome = {"state": "done", "result": getattr(self, f"_{kind}")(document)}
        except ValueError as error:
            outcome = {"state": "failed", "message": str(error)}
        self._ask("POST", f"requests/{record['id']}?session=s1", outcome)

    def _schema(self, document: Mapping[str, Any]) -> dict[str, Any]:
        if not document["table"].endswith(".parquet"):
            raise ValueError(f"table must be a Parquet table that exists, got {document['table']!r}.")
        columns = [{"name": name, "type": kind, "nullable": True} for name, kind in COLUMNS.items()]
        return {"columns": columns, "rows": 32561}

    def _plan(self, document: Mapping[str, Any]) -> dict[str, Any]:
        for name, entry in document["search_space"].items():
            if document["procedure"] == "grid" and entry["kind"] not in {"choice", "fixed"}:
                raise ValueError(f"values of {name!r} must be a list for a grid search, got a range.")
        text = f"RandomSearch of {document['run']}\n  16 configurations x 10 epochs\n  on 2 workers of local[2]"
        return {"text": text, "configurations": 16, "epochs": 160, "seconds": 5400.0}

    def _script(self, document: Mapping[str, Any]) -> dict[str, Any]:
        if "syntax error" in (text := self._blob(document["script"])):
            raise ValueError("line 3: SyntaxError: invalid syntax")
        space = {"lr": {"kind": "loguniform", "low": 1e-4, "high": 0.1}, "act": {"kind": "choice", "values": ["relu"]}}
        return {"trainer": True, "search_space": space, "settings": {"num_epochs": 7, "depth": 3}, "text": text}

    def _launch(self, document: Mapping[str, Any]) -> dict[str, Any]:
        run = document["run"]
        if run in self.runners:
            raise ValueError(f"run must be a new name, got {run!r}, which exists.")
        parent = document["source"].get("run", "")
        shown = {name: document[name] for name in ("description", "search_space", "source")}
        runner = FakeRunner(self._port, self._token, run, pool="p1", parent=parent, **shown)
        runner.start_all({f"c{place:03}": {"lr": 0.1 / 3**place, "act": "relu"} for place in range(4)})
        for place in range(4):
            runner.train(f"c{place:03}", 0.9 - 0.1 * place)
        self.runners[run] = runner
        return {"run": run}

    def _blob(self, sha256: str) -> str:
        return self._read("GET", f"blobs/{sha256}").decode()

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        return json.loads(self._read(method, path, body))

    def _read(self, method: str, path: str, body: Any = None) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
            connection.request(method, f"/api/v1/runner/{path}", None if body is None else json.dumps(body), headers)
            reply = connection.getresponse()
            content = reply.read()
        finally:
            connection.close()
        assert reply.status < 300, content
        return content
