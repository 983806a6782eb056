"""Progress: a model of a procedure, its workers and its users, compared with what is folded from their documents."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from optimizer.errors import InvalidArgumentError
from optimizer.steering import (
    Clone,
    Extend,
    Origin,
    Pause,
    Prioritise,
    Progress,
    Resume,
    Stop,
    check_event,
    command_document,
    conflict,
    origins,
    read_command,
    refusal,
)


@dataclass
class Model:
    """The same configuration as the test keeps it."""

    granted: int
    losses: list[float] = field(default_factory=list)
    status: str = "running"
    held: bool = False
    revision: int = 1
    owner: str = ""
    owed: int = 0
    is_free: bool = False

    @property
    def live(self) -> bool:
        return self.status in {"running", "paused"}

    @property
    def shown(self) -> str:
        return "paused" if self.held and self.live else self.status


def order(results: list[Any] | None = None, decisions: list[Any] | None = None) -> dict[str, Any]:
    return {"results": results or [], "idle": 0, "decisions": decisions or []}


def start(trial: str, epochs: int = 5, source: Any = None, reason: str = "", params: Any = None) -> dict[str, Any]:
    named = {"trial": trial, "params": params or {"lr": 0.1}, "epochs": epochs, "source": source, "reason": reason}
    return {"decision": "start", **named}


def epoch(trial: str, number: int, loss: float | str = 0.5) -> dict[str, Any]:
    return {"result": "epoch", "trial": trial, "epoch": number, "metrics": {"loss": loss}}


def state(progress: Progress) -> list[Any]:
    return [asdict(each) for each in progress.configurations.values()]


class Experiment(RuleBasedStateMachine):
    trials = Bundle("trials")

    def __init__(self) -> None:
        super().__init__()
        self.events: list[tuple[str, str]] = []
        self.progress = Progress(epochs=3)
        self.model: dict[str, Model] = {}
        # Commands that are pending, in order: id, document, user.
        self.pending: list[tuple[str, dict[str, Any], str]] = []
        self.commands = 0

    def happen(self, stream: str, document: Any) -> None:
        if stream in {"orders", "units"}:
            check_event(stream, document)
        self.events.append((stream, json.dumps(document)))
        self.progress.fold(stream, document, len(self.events))

    def record(self, ident: str, document: dict[str, Any], user: str, outcome: str) -> None:
        self.happen("commands", {"id": ident, "command": document, "user": user, "state": outcome})

    @rule(target=trials, epochs=st.integers(1, 4))
    def begin(self, epochs: int) -> str:
        name = f"c{len(self.model):03d}"
        self.happen("orders", order(decisions=[start(name, epochs, reason="grid")]))
        self.model[name] = Model(epochs)
        return name

    @rule(trial=trials, loss=st.floats(0, 1))
    def train(self, trial: str, loss: float) -> None:
        known = self.model[trial]
        number = len(known.losses) + 1
        unit: dict[str, Any] = {"kind": "train", "trial_id": trial, "worker": "w0", "epoch": number - 1, "partition": 0}
        self.happen("units", [unit | {"began": 0.0, "ended": 2.0, "seconds": 2.0}])
        self.happen("orders", order([epoch(trial, number, loss)]))
        if known.live:
            known.losses.append(loss)

    @rule(trial=trials, kind=st.sampled_from(["continue", "pause", "stop", "raised"]))
    def decide(self, trial: str, kind: str) -> None:
        known = self.model[trial]
        if not known.live:
            return
        known.revision += 1
        match kind:
            case "continue":
                self.happen("orders", order(decisions=[{"decision": kind, "trial": trial, "epochs": 2, "reason": ""}]))
                known.granted, known.status = known.granted + 2, "running"
            case "pause":
                self.happen("orders", order(decisions=[{"decision": kind, "trial": trial, "reason": "rung 0"}]))
                known.status = "paused"
            case "stop":
                more = {"decision": "continue", "trial": trial, "epochs": known.owed, "reason": "more epochs"}
                stop = {"decision": kind, "trial": trial, "reason": "rank 9"}
                self.happen("orders", order(decisions=[stop, more] if known.owed else [stop]))
                known.status = "finished" if known.losses else "stopped"
                if known.owed:
                    self.go_beyond(known, known.owed)
                    known.held, known.owed = False, 0
            case "raised":
                self.happen("orders", order([{"result": "ended", "trial": trial, "status": "raised"}]))
                known.status = "raised"
        if kind in {"stop", "raised"}:
            known.held, known.owed = False, 0

    @staticmethod
    def go_beyond(known: Model, epochs: int) -> None:
        """Train more epochs than the procedure has granted."""
        if not known.live:
            known.granted = len(known.losses)
        known.status, known.is_free = "running", True
        known.granted, known.revision = known.granted + epochs, known.revision + 1

    @rule(
        trial=trials, kind=st.sampled_from([Stop, Pause, Resume, Prioritise, Clone, Extend]), user=st.sampled_from("ab")
    )
    def ask(self, trial: str, kind: Any, user: str) -> None:
        command = {Clone: Clone(trial, {"lr": 0.01}), Extend: Extend(trial, 2)}.get(kind) or kind(trial)
        known = self.model[trial]
        names = [document["command"] for _, document, _ in self.pending if document["trial"] == trial]
        holds = [name for name in names if name in {"pause", "resume"}]
        held = holds[-1] == "pause" if holds else known.held
        if kind is Clone:
            possible = bool(known.losses)
        elif kind is Extend:
            possible = known.status != "raised"
        else:
            fits = not held if kind is Pause else held if kind is Resume else True
            possible = known.live and "stop" not in names and fits
        assert (refusal(command, self.progress) is None) == possible
        assert conflict(command, known.revision, self.progress) is None
        assert conflict(command, known.revision - 1, self.progress) is not None
        if possible:
            self.commands += 1
            self.pending.append((f"id{self.commands}", command_document(command), user))
            self.record(*self.pending[-1], "pending")
            known.revision += kind is not Clone

    @precondition(lambda self: self.pending)
    @rule(outcome=st.sampled_from(["applied", "applied", "refused", "withdrawn"]))
    def settle(self, outcome: str) -> None:
        ident, document, user = self.pending.pop(0)
        known, command = self.model[document["trial"]], read_command(document)
        if outcome == "applied" and isinstance(command, Stop) and known.live:
            origin = {"command": ident, "user": user, "at": "2026-11-29T12:00:00Z"}
            request = {"result": "stopped", "trial": command.trial_id, "reason": "by a user", "origin": origin}
            decision = {"decision": "stop", "trial": command.trial_id, "reason": "by a user"}
            self.happen("orders", order([request], [decision]))
            known.status, known.held, known.revision = "stopped", False, known.revision + 1
            known.owed = 0
        if outcome == "applied" and isinstance(command, Extend) and known.status != "raised":
            self.extend(command, known, {"command": ident, "user": user, "at": ""})
        if outcome == "applied" and isinstance(command, Clone):
            origin = {"command": ident, "user": user, "at": "2026-11-29T12:00:00Z"}
            source = {"trial": command.trial_id, "epoch": len(known.losses)}
            request = {"result": "added", "params": {"lr": 0.01}, "epochs": 3, "source": source, "origin": origin}
            name = f"c{len(self.model):03d}"
            # A configuration that the procedure starts at the same time is not the user's.
            decisions = [start(name, 1), start(f"c{len(self.model) + 1:03d}", 3, source, "added by the user")]
            self.happen("orders", order([request], decisions))
            self.model[name] = Model(1)
            self.model[decisions[1]["trial"]] = Model(3, owner=user)
        self.record(ident, document, user, outcome)
        if isinstance(command, Clone):
            return
        if outcome != "applied":
            known.revision += 1
        elif known.live:
            if isinstance(command, Pause | Resume):
                known.held = isinstance(command, Pause)
                known.revision += 1
            elif isinstance(command, Prioritise):
                known.revision += 1

    def extend(self, command: Extend, known: Model, origin: dict[str, str]) -> None:
        """The epochs of a configuration that the procedure decides about follow those of the procedure."""
        request = {"result": "extended", "trial": command.trial_id, "epochs": 2, "origin": origin}
        more = {"decision": "continue", "trial": command.trial_id, "epochs": 2, "reason": "more epochs"}
        waits = known.live and not known.owner and not known.is_free
        self.happen("orders", order([request], [] if waits else [more]))
        if waits:
            known.owed, known.revision = known.owed + 2, known.revision + 1
        else:
            self.go_beyond(known, 2)

    @invariant()
    def the_progress_is_that_of_the_model(self) -> None:
        for name, known in self.model.items():
            folded = self.progress.configurations[name]
            assert (folded.status, folded.granted, folded.owed) == (known.shown, known.granted, known.owed)
            assert [metrics["loss"] for metrics in folded.history] == known.losses
            assert (folded.revision, folded.owner, folded.is_held) == (known.revision, known.owner, known.held)
            assert [change.revision for change in folded.changes] == list(range(1, known.revision + 1))
        assert list(self.progress.configurations) == list(self.model)

    @invariant()
    def the_best_value_is_that_of_the_model(self) -> None:
        losses = [loss for known in self.model.values() for loss in known.losses]
        assert self.progress.best == (min(losses) if losses else None)

    @invariant()
    def a_rebuilt_progress_is_the_same(self) -> None:
        rebuilt = Progress(epochs=3)
        for cursor, (stream, document) in enumerate(self.events, 1):
            rebuilt.fold(stream, json.loads(document), cursor)
        assert state(rebuilt) == state(self.progress)
        assert (rebuilt.seconds, rebuilt.cursor) == (self.progress.seconds, self.progress.cursor)


Experiment.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestExperiment = Experiment.TestCase


def test_epochs_count_in_their_order_and_before_the_end() -> None:
    progress = Progress()
    progress.fold("orders", order(decisions=[start("c000")]), 1)
    ended = {"result": "ended", "trial": "c000", "status": "diverged"}
    progress.fold("orders", order([ended, epoch("c000", 2, "nan"), epoch("c000", 1, "inf")]), 7)
    known = progress.configurations["c000"]
    assert known.history[0]["loss"] == math.inf and math.isnan(known.history[1]["loss"])
    assert (known.status, known.cursors, progress.best) == ("diverged", [7, 7], None)


def test_the_largest_value_is_best_where_more_is_better() -> None:
    progress = Progress(metric="accuracy", mode="max")
    progress.fold("orders", order(decisions=[start("c000")]), 1)
    measured = [{**epoch("c000", number), "metrics": {"accuracy": value}} for number, value in ((1, 0.7), (2, 0.6))]
    progress.fold("orders", order(measured), 2)
    assert progress.best == 0.7


def test_a_clone_has_a_parent() -> None:
    progress = Progress()
    progress.fold("orders", order(decisions=[start("c000"), start("c001", source={"trial": "c000", "epoch": 2})]), 1)
    assert (progress.configurations["c001"].parent, progress.configurations["c001"].parent_epoch) == ("c000", 2)


def test_a_resumed_search_forgets_pauses() -> None:
    progress = Progress()
    progress.fold("orders", order(decisions=[start("c000"), start("c001")]), 1)
    pause = {"id": "1", "command": {"command": "pause", "trial": "c000"}, "user": "ada", "state": "applied"}
    progress.fold("commands", pause, 2)
    progress.fold("experiment", {"state": "ended", "error": "killed"}, 3)
    assert (progress.configurations["c000"].status, progress.over, progress.error) == ("paused", True, "killed")
    progress.fold("experiment", {"state": "attached"}, 4)
    assert (progress.configurations["c000"].status, progress.over, progress.error) == ("running", False, "")
    assert progress.configurations["c000"].revision == 3 and progress.configurations["c001"].revision == 1


def test_a_journal_that_begins_again_replaces_the_first() -> None:
    progress = Progress()
    progress.fold("orders", order(decisions=[start("c000", 2), start("c001", 2)]), 1)
    progress.fold("experiment", {"state": "restarted"}, 2)
    progress.fold("orders", order(decisions=[start("c000", 4)]), 3)
    assert {name: each.granted for name, each in progress.configurations.items()} == {"c000": 4}


def test_a_traceback_reaches_its_configuration() -> None:
    progress = Progress()
    progress.fold("orders", order(decisions=[start("c000")]), 1)
    progress.fold("trials", {"trial": "c000", "traceback": "KeyError: 'lr'"}, 2)
    assert progress.configurations["c000"].traceback == "KeyError: 'lr'"


@pytest.mark.parametrize(
    ("stream", "document", "message"),
    [
        ("order", order(), "stream must be one of orders, units, trials, got 'order'; did you mean 'orders'"),
        ("orders", [], "an order must be a mapping"),
        ("orders", {"results": []}, "decisions of an order must be a list, got None"),
        ("orders", order([{"result": "epok"}]), "result must be one of epoch, .*, got 'epok'"),
        ("orders", order([3]), "result must be one of epoch"),
        ("orders", order([epoch("c000", 1, "high")]), "metric 'loss' must be a number, 'nan'"),
        ("orders", order([epoch("c000", 1, True)]), "metric 'loss' must be a number"),
        (
            "orders",
            order([{**epoch("c000", 1), "epoch": "1"}]),
            "epoch of the result .epoch. must be an integer",
        ),
        ("orders", order(decisions=[start("c000", source={"trial": "c001"})]), "epoch of a source must be an integer"),
        ("orders", order([{"result": "added", "params": {}, "epochs": 1, "origin": 3}]), "an origin must be a mapping"),
        ("units", {}, "units must be a list"),
        ("units", [[math.nan]], "document of units must be JSON data with finite numbers"),
        ("orders", order(decisions=[start("c000", params={"lr": math.inf})]), "document of orders must be JSON data"),
        ("units", [{"kind": "train"}], "trial_id of a unit must be a string, got None"),
        ("trials", {"trial": "c000"}, "traceback of a trial must be a string"),
    ],
)
def test_an_invalid_event_names_its_field(stream: str, document: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        check_event(stream, document)


def test_an_order_names_the_commands_that_it_carried_out() -> None:
    origin = {"command": "8f", "user": "ada", "at": ""}
    ended = {"result": "out of time", "reason": "ended by the user"}
    stopped = {"result": "stopped", "trial": "c000", "reason": "", "origin": origin}
    added = {"result": "added", "params": {}, "epochs": 1, "source": None}
    decisions = [start("c001"), start("c002", reason="added by the user"), start("c003", reason="added by the user")]
    assert origins(
        order([ended, ended | {"origin": origin}, stopped, added, added | {"origin": origin}], decisions)
    ) == [
        Origin("", "ended", "8f", "ada"),
        Origin("c000", "stopped", "8f", "ada"),
        Origin("c002", "added"),
        Origin("c003", "added", "8f", "ada"),
    ]
