"""Pool of workers without Spark that answers the requests of a launch, and starts runs of a fake runner."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from fake_runner import FakeRunner
from handler_pool import HandlerPool

from udfs.requests import RequestHandler

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["COLUMNS", "FakePool"]

COLUMNS = {"age": "int", "hours <b>": "double", "image": "binary", "label": "int"}
"""Types of the columns of each table, one of which has a name that must not become markup."""


class FakePool(HandlerPool):
    """Pool whose launches are runs of a fake runner; parameters as for the pool of handlers."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self.answered: list[tuple[str, dict[str, Any]]] = []
        self.runners: dict[str, FakeRunner] = {}
        answers = {"schema": self._schema, "plan": self._plan, "script": self._script, "launch": self._launch}
        handlers = [RequestHandler(kind, partial(self._record, kind, answer)) for kind, answer in answers.items()]
        usual = {"master": "local[2]", "workers": 2, "store": "file:///data", "scripts": True}
        super().__init__(port, token, *handlers, name="p1", **usual)

    def _record(self, kind: str, answer: Any, document: dict[str, Any], context: Any) -> dict[str, Any]:
        self.answered.append((kind, document))
        return answer(document)

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
        if "syntax error" in (text := self.blob(document["script"]).decode()):
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
