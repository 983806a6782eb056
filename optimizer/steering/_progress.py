"""State of an experiment, folded from the journal of its run and from the commands of its users."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from optimizer.steering._origins import origins

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Change", "Configuration", "Progress"]

_NOT_FINITE = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
_LIVE = ("running", "paused")


@dataclass(frozen=True, slots=True)
class Change:
    """Decision or command about a configuration.

    Parameters
    ----------
    revision : int
        Revision of the configuration after the change, counted from 1.
    text : str
        Description of the change.
    """

    revision: int
    text: str


@dataclass(slots=True, eq=False)
class Configuration:
    """State of a configuration.

    Attributes
    ----------
    trial_id : str
        Id, ``c000``, ``c001``, ... in the order of starts.
    params : mapping
        Hyperparameters as JSON data.
    granted : int
        Number of epochs that it may train.
    owed : int
        Number of epochs that a user asked for, which begin when the procedure ends the configuration.
    parent : str
        Id of the configuration that it was cloned from; ``""`` for none.
    parent_epoch : int
        Finished epoch of the parent that it was cloned from; 0 for none.
    owner : str
        User of the command that added it; ``""`` for the procedure.
    reason : str
        Reason of the last decision.
    history : list of dict
        Metrics of each finished epoch.
    cursors : list of int
        Number of the event that reported each finished epoch.
    ended : dict of int to float
        Seconds from the start of the run to the end of each epoch's last unit; epochs count from 0.
    seconds : float
        Time that its units took on workers.
    traceback : str
        Error of a configuration that failed; ``""`` for none.
    is_held : bool
        True if a user has paused it.
    is_prioritised : bool
        True if a user has prioritised it.
    pending : dict of str to str
        Names of pending commands about it, by their ids, in order.
    changes : list of Change
        Decisions and commands about it.
    """

    trial_id: str
    params: dict[str, Any]
    granted: int
    parent: str = ""
    parent_epoch: int = 0
    owner: str = ""
    reason: str = ""
    history: list[dict[str, float]] = field(default_factory=list)
    cursors: list[int] = field(default_factory=list)
    ended: dict[int, float] = field(default_factory=dict)
    seconds: float = 0.0
    traceback: str = ""
    owed: int = 0
    is_held: bool = False
    is_prioritised: bool = False
    pending: dict[str, str] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    _status: str = "running"

    @property
    def status(self) -> str:
        """``"running"``, ``"paused"``, ``"stopped"``, ``"finished"``, ``"diverged"`` or the kind of a failure."""
        return "paused" if self.is_held and self.is_live else self._status

    @property
    def is_live(self) -> bool:
        """True if the configuration may train further."""
        return self._status in _LIVE

    @property
    def finished(self) -> int:
        """Number of finished epochs."""
        return len(self.history)

    @property
    def remaining(self) -> int:
        """Number of granted epochs that are still to be trained; 0 once it has ended."""
        return max(0, self.granted - self.finished) + self.owed if self.is_live else 0

    @property
    def revision(self) -> int:
        """Number of decisions and commands about the configuration, which epochs do not change."""
        return len(self.changes)

    def record_change(self, text: str) -> None:
        """Append a decision or command, which makes a revision."""
        self.changes.append(Change(self.revision + 1, text))

    def set_status(self, status: str) -> None:
        """Set the status that the procedure or the workers decided."""
        self._status = status
        if not self.is_live:
            self.is_held = self.is_prioritised = False
            self.owed = 0


@dataclass(slots=True, eq=False)
class Progress:
    """State of an experiment, which events change one after the other.

    The same events give the same state, whether they are folded at once or over time.

    Parameters
    ----------
    metric : str
        Metric that decides.
    mode : {"min", "max"}
        Direction in which the metric improves.
    epochs : int
        Default number of epochs of a configuration that a user adds.
    workers : int
        Number of workers that train.

    Attributes
    ----------
    configurations : dict of str to Configuration
        Configurations by their ids, in the order of starts.
    cursor : int
        Number of the last event.
    over : bool
        True if the search has ended.
    error : str
        Error that ended the search; ``""`` for none.
    seconds : float
        Time that units took on workers.
    best : float or None
        Best finite value of the metric that decides; None before the first one.

    Examples
    --------
    >>> progress = Progress(metric="loss", epochs=2)
    >>> start = {"decision": "start", "trial": "c000", "params": {"lr": 0.1}, "epochs": 2, "source": None, "reason": ""}
    >>> progress.fold("orders", {"results": [], "idle": 2, "decisions": [start]}, 1)
    >>> epoch = {"result": "epoch", "trial": "c000", "epoch": 1, "metrics": {"loss": 0.7}}
    >>> progress.fold("orders", {"results": [epoch], "idle": 0, "decisions": []}, 2)
    >>> progress.configurations["c000"].history, progress.configurations["c000"].revision
    ([{'loss': 0.7}], 1)
    """

    metric: str = "loss"
    mode: str = "min"
    epochs: int = 1
    workers: int = 1
    configurations: dict[str, Configuration] = field(default_factory=dict)
    cursor: int = 0
    over: bool = False
    error: str = ""
    seconds: float = 0.0
    best: float | None = None

    @property
    def finished(self) -> int:
        """Number of finished epochs of all configurations."""
        return sum(each.finished for each in self.configurations.values())

    @property
    def remaining(self) -> int:
        """Number of granted epochs that are still to be trained."""
        return sum(each.remaining for each in self.configurations.values())

    @property
    def epoch_seconds(self) -> float | None:
        """Mean time of an epoch on a worker; None before the first one."""
        finished = self.finished
        return self.seconds / finished if finished and self.seconds else None

    def fold(self, stream: str, document: Any, cursor: int) -> None:
        """Apply an event.

        Parameters
        ----------
        stream : {"orders", "units", "trials", "commands", "experiment"}
            Kind of the event.
        document : object
            Document that :func:`check_event` accepts.
        cursor : int
            Number of the event, which grows.
        """
        self.cursor = cursor
        match stream:
            case "orders":
                self._fold_order(document)
            case "units":
                for unit in document:
                    self._fold_unit(unit)
            case "trials":
                if known := self.configurations.get(document["trial"]):
                    known.traceback = document["traceback"]
            case "commands":
                self._fold_command(document)
            case "experiment":
                self._fold_state(document)

    def _fold_order(self, order: Mapping[str, Any]) -> None:
        requests = origins(order)
        owners = {each.trial_id: each.user for each in requests if each.kind == "added"}
        stopped = {each.trial_id for each in requests if each.kind == "stopped"}
        continued = {each["trial"] for each in order["decisions"] if each["decision"] == "continue"}
        # An epoch comes before the end of its configuration, in whichever order they are told.
        for result in sorted(order["results"], key=lambda each: each.get("epoch", 0) if _is_epoch(each) else 1 << 60):
            if result["result"] == "epoch":
                self._fold_epoch(result)
            elif result["result"] == "ended":
                self._end(result["trial"], result["status"], result["status"])
            elif result["result"] == "extended" and result["trial"] not in continued:
                self._owe(result)
        for decision in order["decisions"]:
            if decision["decision"] == "start":
                self._start(decision, owners.get(decision["trial"], ""))
            elif known := self.configurations.get(decision["trial"]):
                self._decide(known, decision, stopped)

    def _owe(self, request: Mapping[str, Any]) -> None:
        known = self.configurations.get(request["trial"])
        if known is not None and known.is_live:
            known.owed += request["epochs"]
            user = (request.get("origin") or {}).get("user") or "the user"
            known.record_change(f"{user} added {request['epochs']} epochs after those of the procedure")

    def _fold_epoch(self, result: Mapping[str, Any]) -> None:
        known = self.configurations.get(result["trial"])
        if known is not None and known.is_live and result["epoch"] == known.finished + 1:
            known.history.append({name: _number(value) for name, value in result["metrics"].items()})
            known.cursors.append(self.cursor)
            self._compare(known.history[-1].get(self.metric))

    def _compare(self, value: float | None) -> None:
        if value is not None and math.isfinite(value):
            better = max if self.mode == "max" else min
            self.best = value if self.best is None else better(self.best, value)

    def _start(self, decision: Mapping[str, Any], owner: str) -> None:
        source = decision["source"] or {"trial": "", "epoch": 0}
        new = Configuration(
            decision["trial"],
            dict(decision["params"]),
            decision["epochs"],
            source["trial"],
            source["epoch"],
            owner,
            decision["reason"],
        )
        new.record_change(f"started{_because(decision['reason'])}")
        self.configurations[new.trial_id] = new

    def _decide(self, known: Configuration, decision: Mapping[str, Any], stopped: set[str]) -> None:
        reason = decision["reason"]
        match decision["decision"]:
            case "continue":
                if not known.is_live:
                    known.granted = known.finished
                known.granted += decision["epochs"]
                known.set_status("running")
                known.reason = reason
                known.record_change(f"granted {decision['epochs']} more epochs{_because(reason)}")
            case "pause":
                known.set_status("paused")
                known.reason = reason
                known.record_change(f"paused by the procedure{_because(reason)}")
            case "stop" if known.is_live:
                if reason.startswith("diverged:"):
                    status = "diverged"
                elif known.trial_id in stopped or not known.history:
                    status = "stopped"
                else:
                    status = "finished"
                self._end(known.trial_id, status, reason)
            case "stop":
                known.reason = reason

    def _end(self, trial_id: str, status: str, reason: str) -> None:
        known = self.configurations.get(trial_id)
        if known is not None and known.is_live:
            known.set_status(status)
            known.reason = reason
            known.record_change(status + ("" if reason == status else _because(reason)))

    def _fold_unit(self, unit: Mapping[str, Any]) -> None:
        self.seconds += unit["seconds"]
        if known := self.configurations.get(unit["trial_id"]):
            known.seconds += unit["seconds"]
            known.ended[unit["epoch"]] = max(unit["ended"], known.ended.get(unit["epoch"], 0.0))

    def _fold_command(self, record: Mapping[str, Any]) -> None:
        document, user, state = record["command"], record["user"] or "a user", record["state"]
        # A clone changes nothing about its parent.
        known = None if document["command"] == "clone" else self.configurations.get(document.get("trial", ""))
        if known is None:
            return
        name = document["command"]
        if state == "pending":
            known.pending[record["id"]] = name
            known.record_change(f"{user} asked to {name} it")
            return
        known.pending.pop(record["id"], None)
        if state != "applied":
            known.record_change(f"the command of {user} to {name} it was {state}")
        elif name in {"pause", "resume"} and known.is_live:
            known.is_held = name == "pause"
            known.reason = f"{name}d by {user}"
            known.record_change(known.reason)
        elif name == "prioritise" and known.is_live:
            known.is_prioritised = True
            known.record_change(f"prioritised by {user}")

    def _fold_state(self, document: Mapping[str, Any]) -> None:
        match document["state"]:
            case "ended":
                self.over, self.error = True, document["error"]
            case "attached":
                self.over, self.error = False, ""
                # Pauses and priorities end with the process of the search.
                for known in self.configurations.values():
                    if known.is_held or known.is_prioritised:
                        known.is_held = known.is_prioritised = False
                        known.reason = "the search was resumed"
                        known.record_change("resumed with the search")
            case "restarted":
                self.configurations.clear()
                self.seconds, self.best = 0.0, None


def _is_epoch(result: Mapping[str, Any]) -> bool:
    return bool(result["result"] == "epoch")


def _number(value: float | str) -> float:
    return _NOT_FINITE[value] if isinstance(value, str) else float(value)


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""
