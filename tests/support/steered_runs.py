"""Documents of a run's journal, and a fake runner that reports them to a server."""

from __future__ import annotations

from typing import Any

SETTINGS = {"store": "file:///data/cerebro", "name": "adult", "metric": "loss", "epochs": 3, "workers": 2}


def order(results: list[Any] | None = None, decisions: list[Any] | None = None) -> dict[str, Any]:
    """Make the document of an exchange with the procedure."""
    return {"results": results or [], "idle": 0, "decisions": decisions or []}


def start(
    trial: str, epochs: int = 3, *, params: Any = None, source: Any = None, reason: str = "grid"
) -> dict[str, Any]:
    """Make the decision that starts a configuration."""
    named = {"trial": trial, "params": params or {"lr": 0.1}, "epochs": epochs, "source": source, "reason": reason}
    return {"decision": "start", **named}


def epoch(trial: str, number: int, loss: float | str = 0.5) -> dict[str, Any]:
    """Make the result of an epoch."""
    return {"result": "epoch", "trial": trial, "epoch": number, "metrics": {"loss": loss}}


def unit(trial: str, number: int, worker: str = "w0") -> dict[str, Any]:
    """Make the event of a unit that took two seconds."""
    times = {"began": 2.0 * number, "ended": 2.0 * number + 2.0, "seconds": 2.0}
    return {"kind": "train", "trial_id": trial, "worker": worker, "epoch": number, "partition": 0, **times}


def origin(command: dict[str, Any]) -> dict[str, Any]:
    """Make the origin of a request, from the record of its command."""
    return {"command": command["id"], "user": command["user"], "at": "2026-11-29T12:00:00Z"}


class FakeRunner:
    """Runner without a search: it reports orders and units, and carries commands out as a search would.

    ``client`` has the methods of an HTTP client whose replies have ``status_code`` and ``json()``.
    """

    def __init__(self, client: Any, run: str = "r1") -> None:
        self.client, self.place, self.numbers = client, f"/api/v1/runner/experiments/{run}", {"orders": 0, "units": 0}

    def register(self, **settings: Any) -> dict[str, Any]:
        """Register the run, and go on with the numbers that the server needs."""
        reply = self.client.put(self.place, json={**SETTINGS, **settings})
        assert reply.status_code == 200, reply.text
        self.numbers = reply.json()["next"]
        return dict(reply.json())

    def report(self, stream: str, *documents: Any) -> dict[str, Any]:
        """Report the next documents of a stream."""
        numbered = list(enumerate(documents, self.numbers[stream]))
        reply = self.client.post(f"{self.place}/events", json={"stream": stream, "documents": numbered})
        assert reply.status_code == 200, reply.text
        self.numbers = reply.json()["next"]
        return dict(reply.json())

    def begin(self, *trials: str, **params: Any) -> None:
        """Register the run, and start configurations of the same hyperparameters."""
        self.register()
        self.report("orders", order(decisions=[start(trial, params=params or None) for trial in trials]))

    def train(self, trial: str, number: int, loss: float | str = 0.5) -> None:
        """Train an epoch."""
        self.report("units", [unit(trial, number - 1)])
        self.report("orders", order([epoch(trial, number, loss)]))

    def pending(self, wait: float = 0.0) -> list[dict[str, Any]]:
        """Ask for pending commands."""
        return list(self.client.get(f"{self.place}/commands", params={"wait": wait}).json()["commands"])

    def settle(self, command: dict[str, Any], state: str = "applied", **result: Any) -> Any:
        """Report the outcome of a command."""
        return self.client.post(f"{self.place}/commands/{command['id']}", json={"state": state, **result})

    def stop(self, command: dict[str, Any]) -> None:
        """Carry a stop out, which the journal records with its origin."""
        trial = command["command"]["trial"]
        request = {"result": "stopped", "trial": trial, "reason": "stopped by the user", "origin": origin(command)}
        decision = {"decision": "stop", "trial": trial, "reason": "stopped by the user"}
        self.report("orders", order([request], [decision]))
