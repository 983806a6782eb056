"""A run with simulated workers: a coordinator, a store in memory, and workers that call when they are told to."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from cerebro_spark.hopper import Coordinator, Director, RunContext, RunSpec, Singles, Trial, _epochs, _protocol, _teams
from optimizer.hybrids import HybridSettings
from optimizer.procedures import Listed, Plan, Procedure
from udfs.hopper import (
    Apart,
    CheckpointStored,
    EvaluatedMember,
    EvaluateReport,
    Hello,
    JointReport,
    JointUnit,
    Meet,
    Member,
    MemberFailure,
    NextUnit,
    Stop,
    TrainedMember,
    TrainReport,
    TrainUnit,
    UnitFailure,
    WorkUnit,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from cerebro_spark.hopper import Grouping, Observer

__all__ = ["EPOCHS", "SPEC", "Halves", "Player", "World", "die", "ids", "one_call_at_a_time", "run_context", "units"]

EPOCHS = 2

SPEC = RunSpec("run", "data", [{}], "m:f", EPOCHS, 0, "fixed", 1, "loss", False, "rolling", "GridSearch")


def run_context(partitions: int, *, spec: RunSpec = SPEC, validates: bool = False, **settings: Any) -> RunContext:
    """Return the context of a run with as many workers as partitions, each of ten rows."""
    shards = [SimpleNamespace(partition=partition, rows=10, split="train") for partition in range(partitions)]
    prepared: Any = SimpleNamespace(
        partitions=tuple(range(partitions)), shards=shards, test_fraction=0.25 if validates else 0, store=None
    )
    backend: Any = SimpleNamespace(num_workers=partitions, most_workers=partitions, rejoin_s=60.0)
    resources: dict[str, Any] = {
        "prepared": prepared,
        "backend": backend,
        "trainer_fn": None,
        "probed": SimpleNamespace(model_bytes=80),
    }
    return RunContext(spec=spec, **{**resources, **settings})


@dataclass
class Player:
    """A worker as the coordinator sees it: its state of a configuration is the list of shards that trained it."""

    name: str
    world: World
    attempt: int = 0
    states: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    unit: WorkUnit | None = None
    writing: list[tuple[str, tuple[tuple[int, int], ...]]] = field(default_factory=list)
    report: TrainReport | JointReport | EvaluateReport | UnitFailure | None = None

    def call(self, request: type, **fields: Any) -> Any:
        return self.world.coordinator.answer(request(worker=self.name, attempt=str(self.attempt), **fields))

    def join(self) -> None:
        self.attempt += 1
        self.states, self.unit, self.writing, self.report = {}, None, [], None
        sizes = {"memory_bytes": self.world.memory_bytes, "shard_bytes": 10}
        self.call(Hello, location=f"at {self.name}", host="here", **sizes)
        self.world.alive[self.name] = self

    def ask(self) -> None:
        """Report what is done, and take the next unit."""
        report, self.report = self.report, None
        reply = self.call(NextUnit, report=report)
        self.unit = reply if isinstance(reply, WorkUnit) else None
        if reply == Stop():
            return
        for trial_id, version in reply.drop:
            if len(self.states.get(trial_id, ())) <= version:
                self.states.pop(trial_id, None)

    def leave(self) -> None:
        """Hand over all states and the report, because the machine is about to end; the unit in flight is lost."""
        self.writing = [(trial_id, state) for trial_id, state in self.states.items()]
        while self.writing:
            self.store()
        report, self.report = self.report, None
        assert self.call(NextUnit, report=report, takes=False, leaves=True) == Stop()
        del self.world.alive[self.name]

    def work(self, *, fails: str | dict[str, str] | None = None) -> None:
        """Do the unit; ``fails`` has the reason why it comes to nothing, for all members or by trial id."""
        unit, self.unit = self.unit, None
        assert unit is not None
        assert unit.partition in unit.holds
        if isinstance(unit, JointUnit):
            self.report = self.shared(unit, fails if isinstance(fails, str) else None)
            return
        reasons = fails if isinstance(fails, dict) else dict.fromkeys(ids(unit), fails)
        members = tuple(self.worked(unit, member, reasons.get(member.trial_id)) for member in unit.members)
        report = TrainReport if isinstance(unit, TrainUnit) else EvaluateReport
        self.report = report(unit_id=unit.unit_id, members=members)

    def worked(
        self, unit: WorkUnit, member: Member, fails: str | None
    ) -> TrainedMember | EvaluatedMember | MemberFailure:
        state = self.fetched(member)
        if state is None:
            return MemberFailure(trial_id=member.trial_id, reason="hop", traceback="gone")
        assert len(state) == member.version
        assert member.digest == (str(state) if state else ""), "another state than the digest says"
        if fails is not None:
            return MemberFailure(trial_id=member.trial_id, reason=fails, traceback="Traceback of the user's")
        sums = {"loss": np.array([1.0, 1.0])}
        done = {"trial_id": member.trial_id, "seconds": 1.0, "fetched_bytes": 8, "sums": sums}
        if not isinstance(unit, TrainUnit):
            return EvaluatedMember(**done)
        assert member.record is not None
        assert member.record.visits == state, "another state than the record says"
        assert [partition for epoch, partition in state if epoch == unit.epoch].count(unit.partition) == 0
        state = (*state, (unit.epoch, unit.partition))
        assert unit.ends_epoch == (len(state) % len(self.world.all_partitions) == 0)
        self.states[member.trial_id] = state
        if member.stores:
            self.writing.append((member.trial_id, state))
        return TrainedMember(**done, digest=str(state), checkpoint_bytes=8)

    def shared(self, unit: JointUnit, fails: str | None) -> JointReport | UnitFailure:
        """Do this worker's share of a unit, unless another worker of it is gone."""
        (member,) = unit.members
        assert set(unit.shares[unit.rank]) <= set(unit.holds)
        assert sorted(sum(unit.shares, ())) == list(self.world.all_partitions)
        apart = self.call(Meet, unit_id=unit.unit_id)
        state = self.fetched(member)
        reason = "team" if isinstance(apart, Apart) else "hop" if state is None else fails
        if reason is not None:
            return UnitFailure(unit_id=unit.unit_id, reason=reason, traceback="Traceback of the user's")
        assert state is not None
        assert member.digest == (str(state) if state else ""), "another state than the digest says"
        assert unit.epoch not in dict(state)
        trained = None
        if not unit.rank:
            state = (*state, *((unit.epoch, partition) for partition in self.world.all_partitions))
            self.states[member.trial_id] = state
            self.writing += [(member.trial_id, state)] if member.stores else []
            done = {"trial_id": member.trial_id, "seconds": 1.0, "fetched_bytes": 8, "digest": str(state)}
            trained = TrainedMember(**done, sums={"loss": np.array([1.0, 1.0])}, checkpoint_bytes=8)
        return JointReport(unit_id=unit.unit_id, seconds=1.0, fetched_bytes=8, exchanged_bytes=8.0, trained=trained)

    def fetched(self, member: Member) -> tuple[tuple[int, int], ...] | None:
        if member.version == 0:
            return ()
        mine = self.states.get(member.trial_id, ())
        if str(mine) == member.digest:
            return mine
        if member.peer:
            peer = self.world.alive.get(member.peer.removeprefix("at "))
            theirs = peer.states.get(member.trial_id, ()) if peer is not None else ()
            return theirs if str(theirs) == member.digest else None
        return self.world.store.get((member.trial_id, member.digest))

    def store(self) -> Any:
        """Write the oldest state that is to be written."""
        trial_id, state = self.writing.pop(0)
        self.world.store[trial_id, str(state)] = state
        return self.call(
            CheckpointStored, trial_id=trial_id, version=len(state), digest=str(state), seconds=0.1, dropped=()
        )


class World:
    """Some workers, a store, and a coordinator."""

    memory_bytes = 100

    def __init__(
        self,
        configs: int,
        workers: int,
        replicas: int,
        *,
        validates: bool,
        policy: str,
        rounds: str = "rolling",
        observer: Observer | None = None,
        procedure: Procedure | None = None,
        grouping: Grouping | None = None,
        checkpoints: str = "visits",
        hybrid: str = "off",
    ) -> None:
        self.all_partitions = tuple(range(workers))
        self.store: dict[tuple[str, str], tuple[tuple[int, int], ...]] = {}
        self.alive: dict[str, Player] = {}
        self.closed: list[tuple[str, int]] = []
        params = [{"number": number} for number in range(configs)]
        journal: Any = SimpleNamespace(run="run", orders=list, order=lambda _: None)
        self.director = Director(
            procedure or Listed(params, epochs=EPOCHS),
            journal,
            slots=workers,
            trial=Trial,
        )
        self.director.begin()
        self.validates = validates
        self.checkpoints = checkpoints
        spec = replace(SPEC, seed=1, policy=policy, rounds=rounds, replicas=replicas, checkpoints=checkpoints)
        spec = replace(spec, hybrid=HybridSettings(hybrid).to_dict())
        context = run_context(workers, spec=spec, validates=validates, grouping=grouping or Singles())
        self.coordinator = Coordinator(self.director, context, self, observer=observer)
        self.players = [Player(f"w{number}", self) for number in range(workers)]

    @property
    def trials(self) -> list[Trial]:
        return self.director.trials

    def loss(self, trial: Trial) -> float:
        """Of the epoch that a trial has just finished."""
        return float(trial.params["number"]) / (1 + trial.epoch)

    def play(self, work: Callable[[Player, WorkUnit], None]) -> None:
        """Until the run is over: everybody who is here asks, works and stores in turn."""
        for _ in range(400):
            if self.coordinator.wait(0.0):
                return
            for player in list(self.alive.values()):
                if player.unit is None:
                    player.ask()
                else:
                    work(player, player.unit)
                while player.writing:
                    player.store()

    def note(self, events: Any) -> None:
        """Note the events that are written."""

    def write_ends(self, trials: Any) -> None:
        """Write nothing."""

    def write_epochs(self, trials: Any, events: Any) -> None:
        self.note(events)
        for trial in trials:
            if trial.running:
                assert trial.durable or (self.checkpoints == "end" and trial.epoch + 1 < trial.granted)
                assert len(trial.done(trial.epoch)) == len(self.all_partitions)
                if self.validates:
                    assert sorted(trial.evaluated) == list(self.all_partitions)
                self.closed.append((trial.trial_id, trial.epoch))
                trial.history.append({"loss": self.loss(trial)})


class Halves(Procedure):
    """Trains four configurations for one epoch, and the better half for another one."""

    def decide(self, fresh: Any, idle: int) -> None:  # all at once
        if not self.started:
            for number in range(4):
                self.start({"number": number}, 1)
        for trial in fresh:
            if trial.finished == 1 and trial.params["number"] % 2:
                self.carry_on(trial, 1)
            elif trial.waiting:
                self.stop(trial, "enough")

    def plan(self) -> Any:
        return Plan("Halves", (), epochs_each=2, chain=2, configurations=4, clones=0, most_epochs=6)


def ids(unit: WorkUnit) -> list[str]:
    """Trials of a unit."""
    return [member.trial_id for member in unit.members]


def die(player: Player) -> None:
    player.world.alive.pop(player.name)
    player.world.coordinator.lose(player.name, "out of memory")
    player.join()


def units(world: World, count: int) -> list[str]:
    """Trials of the next training units, in the order in which they are given out."""
    given: list[str] = []

    def work(player: Player, unit: WorkUnit) -> None:
        given.extend(ids(unit))
        player.work()

    while len(given) < count and not world.coordinator.wait(0.0):
        for player in list(world.alive.values()):
            if player.unit is None:
                player.ask()
            else:
                work(player, player.unit)
            while player.writing:
                player.store()
    return given


def one_call_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have calls, and the end of an epoch, come one after the other."""

    class Now:
        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def submit(self, function: Any, *arguments: Any) -> Future[Any]:
            future: Future[Any] = Future()
            try:
                future.set_result(function(*arguments))
            except BaseException as error:  # as an executor does
                future.set_exception(error)
            return future

    monkeypatch.setattr(_protocol, "_POLL_S", 0.0)
    monkeypatch.setattr(_teams, "_POLL_S", 0.0)
    monkeypatch.setattr(_epochs, "ThreadPoolExecutor", Now)
