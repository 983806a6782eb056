"""Runner without Spark: reports documents of a journal to the steering server, and carries commands out."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FakeRunner"]

_UNIT_S = 1.6


class FakeRunner:
    """Runner of one run.

    Parameters
    ----------
    port : int
        Port of the server.
    token : str
        Access token with the role ``runner``.
    run : str
        Name of the run.
    **settings
        Settings of the run, in place of the usual ones.
    """

    def __init__(self, port: int, token: str, run: str = "adult", **settings: Any) -> None:
        self._port, self._token, self.run = port, token, run
        self._path = f"/api/v1/runner/experiments/{quote(run, safe='')}"
        usual = {"store": "file:///data", "name": run, "metric": "val_loss", "mode": "min", "epochs": 9}
        self._settings = {**usual, "procedure": "ASHA", "workers": 2, **settings}
        self.params: dict[str, dict[str, Any]] = {}
        self.epochs: dict[str, int] = {}
        self._seconds = {"w0": 0.0, "w1": 0.0}
        self.register()

    def register(self) -> None:
        """Register the run; the server says which documents it needs next."""
        self._next = self.ask("PUT", "", self._settings)["next"]

    def start(self, trial: str, params: Mapping[str, Any], **decision: Any) -> None:
        """Report the decision to start a configuration."""
        self.order([], [self._start(trial, params, **decision)])

    def start_all(self, all_params: Mapping[str, Mapping[str, Any]]) -> None:
        """Report the decision to start several configurations."""
        self.order([], [self._start(trial, params) for trial, params in all_params.items()])

    def train(self, trial: str, *losses: float | str) -> None:
        """Report epochs of a configuration: their units, and their metrics."""
        results = []
        for loss in losses:
            self.epochs[trial] += 1
            metrics = {"val_loss": loss, "val_accuracy": 1 - loss / 2 if isinstance(loss, float) else 0.0}
            results.append({"result": "epoch", "trial": trial, "epoch": self.epochs[trial], "metrics": metrics})
            self.units(trial, self.epochs[trial] - 1)
        self.order(results)

    def units(self, trial: str, epoch: int) -> None:
        """Report the units of an epoch, one for training and one for evaluation on each worker."""
        kinds = ("train", "validate")
        self._report("units", [self._unit(kind, trial, worker, epoch) for worker in self._seconds for kind in kinds])

    def end_trial(self, trial: str, status: str, traceback: str = "") -> None:
        """Report how a configuration ended."""
        self.order([{"result": "ended", "trial": trial, "status": status}])
        if traceback:
            body = {"stream": "trials", "documents": [[0, {"trial": trial, "traceback": traceback}]]}
            self.ask("POST", "/events", body)

    def order(self, results: list[dict[str, Any]], decisions: list[dict[str, Any]] | None = None) -> None:
        """Report what the procedure was told and decided."""
        self._report("orders", {"results": results, "idle": 0, "decisions": decisions or []})

    def commands(self) -> list[dict[str, Any]]:
        """Return the pending commands."""
        return list(self.ask("GET", "/commands?wait=0")["commands"])

    def apply_all(self) -> list[str]:
        """Carry the pending commands out, and return their names."""
        pending = self.commands()
        for each in pending:
            self.apply(each)
        return [each["command"]["command"] for each in pending]

    def end(self, error: str = "") -> None:
        """Report the end of the run."""
        self.ask("POST", "/ended", {"error": error})

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request, and return its reply."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
            connection.request(method, self._path + path, None if body is None else json.dumps(body), headers)
            reply = connection.getresponse()
            text = reply.read()
        finally:
            connection.close()
        assert reply.status < 300, text
        return json.loads(text)

    def _report(self, stream: str, document: Any) -> None:
        documents = [[self._next[stream], document]]
        self._next = self.ask("POST", "/events", {"stream": stream, "documents": documents})["next"]

    def _unit(self, kind: str, trial: str, worker: str, epoch: int) -> dict[str, Any]:
        began = self._seconds[worker]
        self._seconds[worker] = ended = began + (_UNIT_S if kind == "train" else _UNIT_S / 4)
        place = {"worker": worker, "partition": list(self._seconds).index(worker)}
        return {
            "kind": kind, "trial_id": trial, "epoch": epoch, "began": began, "ended": ended, "seconds": ended - began,
            **place,
        }  # fmt: skip

    def _start(self, trial: str, params: Mapping[str, Any], **decision: Any) -> dict[str, Any]:
        self.params[trial], self.epochs[trial] = dict(params), 0
        usual = {"epochs": self._settings["epochs"], "source": None, "reason": "drawn at random"}
        return {"decision": "start", "trial": trial, "params": dict(params), **usual, **decision}

    def apply(self, record: dict[str, Any]) -> None:
        """Carry a command out."""
        command = record["command"]
        origin = {"command": record["id"], "user": record["user"], "at": "2026-11-29T12:00:00Z"}
        match command["command"]:
            case "stop":
                stopped = {"result": "stopped", "trial": command["trial"], "reason": "stopped by the user"}
                stop = {"decision": "stop", "trial": command["trial"], "reason": "stopped by the user"}
                self.order([{**stopped, "origin": origin}], [stop])
            case "extend":
                named = {"trial": command["trial"], "epochs": command["epochs"]}
                more = {"decision": "continue", **named, "reason": "more epochs for the user"}
                self.order([{"result": "extended", **named, "origin": origin}], [more])
            case "add" | "clone":
                parent = command.get("trial")
                params = {**(self.params[parent] if parent else {}), **command["params"]}
                source = {"trial": parent, "epoch": command["epoch"] or self.epochs[parent]} if parent else None
                epochs = command["epochs"] or self._settings["epochs"]
                added = {"result": "added", "params": params, "epochs": epochs, "source": source, "origin": origin}
                trial = f"c{len(self.params):03}"
                decision = {"epochs": epochs, "source": source, "reason": "added by the user"}
                self.order([added], [self._start(trial, params, **decision)])
            case _:
                self.ask("POST", f"/commands/{record['id']}", {"state": "applied", "message": "", "trial": ""})
