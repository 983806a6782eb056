"""The driver's side under any sequence of faults, with simulated workers: what it gives out always adds up."""

from __future__ import annotations

import itertools
import random
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.hopper import ROUNDS, Coordinator, Death, Director, Trial, _epochs, _liveness, _protocol
from optimizer import procedures
from optimizer.procedures import Added, Listed, ProcedureError, Stopped
from udfs.hopper import (
    Abort,
    Acknowledged,
    Beat,
    CheckpointFailed,
    CheckpointStored,
    Ended,
    EvaluateReport,
    EvaluateUnit,
    Hello,
    NextUnit,
    Obsolete,
    Printed,
    ShardFailed,
    Stop,
    TrainReport,
    TrainUnit,
    UnitFailure,
    WorkUnit,
)
from udfs.rpc import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from cerebro_spark.hopper import Event, Loss, Observer
    from optimizer.procedures import Procedure

EPOCHS = 2


@dataclass
class Player:
    """A worker as the coordinator sees it: its state of a configuration is the list of shards that trained it."""

    name: str
    world: World
    attempt: int = 0
    states: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    unit: WorkUnit | None = None
    writing: list[tuple[str, tuple[tuple[int, int], ...]]] = field(default_factory=list)
    report: TrainReport | EvaluateReport | UnitFailure | None = None

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

    def work(self, *, fails: str | None = None) -> None:
        unit, self.unit = self.unit, None
        assert unit is not None
        assert unit.partition in unit.holds
        state = self.fetched(unit)
        if state is None:
            self.report = UnitFailure(unit_id=unit.unit_id, reason="hop", traceback="gone")
            return
        assert len(state) == unit.version
        assert unit.digest == (str(state) if state else ""), "another state than the digest says"
        if fails is not None:
            self.report = UnitFailure(unit_id=unit.unit_id, reason=fails, traceback="Traceback of the user's")
            return
        done = {"unit_id": unit.unit_id, "seconds": 1.0, "fetched_bytes": 8, "sums": {"loss": np.array([1.0, 1.0])}}
        if isinstance(unit, TrainUnit):
            assert unit.record.visits == state, "another state than the record says"
            assert [partition for epoch, partition in state if epoch == unit.epoch].count(unit.partition) == 0
            state = (*state, (unit.epoch, unit.partition))
            assert unit.ends_epoch == (len(state) % len(self.world.all_partitions) == 0)
            self.states[unit.trial_id] = state
            self.writing.append((unit.trial_id, state))
            self.report = TrainReport(**done, digest=str(state), checkpoint_bytes=8)
        else:
            self.report = EvaluateReport(**done)

    def fetched(self, unit: WorkUnit) -> tuple[tuple[int, int], ...] | None:
        if unit.version == 0:
            return ()
        mine = self.states.get(unit.trial_id, ())
        if len(mine) == unit.version:
            return mine
        if unit.peer:
            peer = self.world.alive.get(unit.peer.removeprefix("at "))
            theirs = peer.states.get(unit.trial_id, ()) if peer is not None else ()
            return theirs if len(theirs) == unit.version else None
        return self.world.store.get((unit.trial_id, unit.digest))

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
        self.coordinator = Coordinator(
            self.director,
            workers={
                f"w{number}": [(number + copy) % workers for copy in range(replicas)] for number in range(workers)
            },
            rows=dict.fromkeys(self.all_partitions, 10),
            validates=validates,
            policy=policy,
            seed=1,
            rounds=rounds,
            unit_timeout_s=None,
            rejoin_s=60.0,
            model_bytes=80,
            close=self.close,
            decided=lambda _: None,
            observer=observer,
        )
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

    def close(self, trials: Any, events: Any) -> None:
        self.note(events)
        for trial in trials:
            if trial.running:
                assert trial.durable
                assert len(trial.done(trial.epoch)) == len(self.all_partitions)
                if self.validates:
                    assert sorted(trial.evaluated) == list(self.all_partitions)
                self.closed.append((trial.trial_id, trial.epoch))
                trial.history.append({"loss": self.loss(trial)})


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls come one after the other here, and the end of an epoch with them."""

    class Now:
        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def submit(self, function: Any, *arguments: Any) -> Future[Any]:
            future: Future[Any] = Future()
            try:
                future.set_result(function(*arguments))
            except BaseException as error:  # noqa: BLE001 - as an executor does
                future.set_exception(error)
            return future

    monkeypatch.setattr(_protocol, "_POLL_S", 0.0)
    monkeypatch.setattr(_epochs, "ThreadPoolExecutor", Now)


@settings(max_examples=300, deadline=None)
@given(
    configs=st.integers(1, 4),
    workers=st.integers(1, 4),
    extra=st.integers(0, 2),
    validates=st.booleans(),
    policy=st.sampled_from(["least-far-along", "randomized", "fixed"]),
    rounds=st.sampled_from(ROUNDS),
    seed=st.integers(0, 2**31),
    losses=st.integers(0, 5),
    newcomers=st.integers(0, 2),
    rejoin_s=st.sampled_from([0.0, 60.0]),
)
def test_whatever_is_lost_every_model_visits_every_shard_once_an_epoch(  # noqa: C901, PLR0912 - the faults, in turn
    configs: int,
    workers: int,
    extra: int,
    validates: bool,
    policy: str,
    rounds: str,
    seed: int,
    losses: int,
    newcomers: int,
    rejoin_s: float,
) -> None:
    world = World(configs, workers, min(workers, 1 + extra), validates=validates, policy=policy, rounds=rounds)
    world.coordinator._recovery._rejoin_s = rejoin_s
    draw = random.Random(seed)  # noqa: S311 - of a test
    for player in world.players:
        player.join()
    world.players += [Player(f"new{number}", world) for number in range(newcomers)]
    for _ in range(4000):
        if world.coordinator.wait(0.0):
            break
        player = draw.choice(world.players)
        if draw.random() < 0.05:
            world.coordinator.look_after()
        if player.name not in world.alive:
            if draw.random() < 0.3:
                player.join()
        elif losses and draw.random() < 0.05:
            losses -= 1
            world.alive.pop(player.name)
            if draw.random() < 0.5:
                world.coordinator.lose(player.name, "killed")
            # Otherwise the next attempt takes its place before anybody has noticed.
        elif player.writing and draw.random() < 0.4:
            player.store()
        elif player.unit is not None:
            player.work()
        else:
            player.ask()
    assert world.coordinator.wait(0.0)
    assert world.coordinator.error is None
    if rounds == "together":
        assert [epoch for _, epoch in world.closed] == sorted(epoch for _, epoch in world.closed)
    for trial in world.trials:
        if trial.status == "failed":
            assert len(trial.deaths) >= 3
            continue
        assert trial.status == "finished"
        assert [epoch for trial_id, epoch in world.closed if trial_id == trial.trial_id] == list(range(EPOCHS))
        assert sorted(trial.visits) == [(epoch, part) for epoch in range(EPOCHS) for part in world.all_partitions]
        assert world.store[trial.trial_id, trial.digests[-1]] == tuple(trial.visits)


def test_a_unit_trained_but_not_stored_is_trained_again() -> None:
    world = World(1, 2, 1, validates=False, policy="fixed")
    one, other = world.players
    one.join()
    other.join()
    first = one if one.ask() or one.unit else other
    if first.unit is None:
        other.ask()
        first = other
    first.work()
    first.ask()
    assert world.trials[0].version == 1
    world.alive.pop(first.name)
    world.coordinator.lose(first.name, "killed")
    assert world.trials[0].version == 0
    assert world.coordinator.redone == 1


def test_one_that_raises_ends_alone() -> None:
    world = World(3, 2, 1, validates=True, policy="longest-remaining-first")
    for player in world.players:
        player.join()
    world.play(lambda player, unit: player.work(fails="raised" if unit.trial_id == "c001" else None))
    assert [trial.status for trial in world.trials] == ["finished", "raised", "finished"]
    assert "user's" in world.trials[1].traceback


def die(player: Player) -> None:
    player.world.alive.pop(player.name)
    player.world.coordinator.lose(player.name, "out of memory")
    player.join()


@pytest.mark.parametrize("policy", ["least-far-along", "randomized", "fixed"])
@pytest.mark.parametrize("kind", [TrainUnit, EvaluateUnit])
def test_a_configuration_that_kills_whoever_has_it_is_tried_alone_and_ended(policy: str, kind: type) -> None:
    world = World(4, 3, 2, validates=True, policy=policy)
    for player in world.players:
        player.join()
    together: list[list[str]] = []

    def work(player: Player, unit: WorkUnit) -> None:
        if unit.trial_id != "c000" or not isinstance(unit, kind):
            player.work()
            return
        together.append([other.unit.trial_id for other in world.alive.values() if other.unit is not None])
        die(player)

    world.play(work)
    assert [trial.status for trial in world.trials] == ["failed", "finished", "finished", "finished"]
    # Several workers may evaluate it at once, before the first of them dies.
    assert len(together) == 3 if kind is TrainUnit else 3 <= len(together) <= 4
    assert together[-1] == ["c000"], "others had units while it was tried alone"
    doing = "training" if kind is TrainUnit else "evaluating"
    text = f"its worker died {len(together)} times while {doing} it, the last time with no other trial running"
    assert world.trials[0].traceback == f"{text}: out of memory"
    # None of these deaths is the workers' own.
    assert sum(world.coordinator.uncharged(player.name) for player in world.players) == len(together)


def test_nobody_gets_a_unit_while_a_suspect_is_tried_and_everybody_does_after_it() -> None:
    world = World(3, 3, 3, validates=False, policy="fixed")
    for player in world.players:
        player.join()
    first, second, third = world.players
    (killer, *_) = world.trials
    killer.deaths += [Death("w0", None), Death("w1", None)]
    for player in world.players:
        player.ask()
    assert sorted(player.unit.trial_id for player in world.players if player.unit) == ["c001", "c002"]
    while first.unit is None or first.unit.trial_id != "c000":
        for player in world.players:
            if player.unit is not None and player.unit.trial_id != "c000":
                player.work()
            player.ask()
            while player.writing:
                player.store()
        holders = [player for player in world.players if player.unit and player.unit.trial_id == "c000"]
        if holders:
            first, (second, third) = holders[0], [player for player in world.players if player is not holders[0]]
    assert (second.unit, third.unit) == (None, None)
    second.ask()
    assert second.unit is None
    first.work()
    first.ask()
    assert not killer.suspect, "it got past the unit"
    world.play(lambda player, _unit: player.work())
    assert {trial.status for trial in world.trials} == {"finished"}


def test_a_configuration_is_not_blamed_for_losses_between_units_that_it_finished() -> None:
    """Machines may be lost any number of times while it trains, as long as it gets on in between."""
    world = World(1, 4, 4, validates=False, policy="fixed")
    for player in world.players:
        player.join()
    (trial,) = world.trials
    losses = 0

    def work(player: Player, _unit: WorkUnit) -> None:
        nonlocal losses
        if losses <= trial.version:  # each of the 8 units is lost once before it is done
            losses += 1
            die(player)
        else:
            player.work()

    world.play(work)
    assert losses == 8
    assert trial.status == "finished"
    assert [world.coordinator.uncharged(player.name) for player in world.players] == [0, 0, 0, 0]


def test_a_loss_is_open_until_its_configuration_gets_past_the_unit() -> None:
    world = World(2, 1, 1, validates=False, policy="fixed")
    (player,) = world.players
    player.join()
    player.ask()
    die(player)
    assert world.coordinator.uncharged("w0") == 0, "nothing has worked yet: it may be the cluster"
    player.ask()
    player.work()
    player.ask()
    assert player.unit is not None
    trial = world.trials[int(player.unit.trial_id[1:])]
    die(player)
    assert world.coordinator.uncharged("w0") == 1
    while not trial.version:
        player.ask()
        if player.unit is not None:
            player.work()
    assert world.coordinator.uncharged("w0") == 0, "the loss was its own"


def test_the_loss_of_a_whole_node_ends_no_configuration() -> None:
    """Four workers that evaluate one configuration are lost at once: that is one reason, not four."""
    world = World(1, 4, 4, validates=True, policy="fixed")
    for player in world.players:
        player.join()

    def all_evaluate() -> bool:
        return all(isinstance(player.unit, EvaluateUnit) for player in world.players)

    for _ in range(40):
        for player in world.players:
            if isinstance(player.unit, TrainUnit):
                player.work()
            if player.unit is None:
                player.ask()
            while player.writing:
                player.store()
        if all_evaluate():
            break
    assert all_evaluate()
    for player in world.players:
        die(player)
    world.play(lambda player, _unit: player.work())
    assert world.trials[0].status == "finished"


def test_shards_of_a_lost_worker_go_to_the_remaining_ones() -> None:
    world = World(2, 3, 1, validates=True, policy="randomized")
    for player in world.players:
        player.join()
    world.alive.pop("w1")
    world.coordinator.give_up("w1")
    assert sorted(world.coordinator._state.holdings["w0"] | world.coordinator._state.holdings["w2"]) == [0, 1, 2]
    world.play(lambda player, _unit: player.work())
    assert {trial.status for trial in world.trials} == {"finished"}


def test_a_worker_that_is_too_small_is_said_before_anything_is_trained() -> None:
    world = World(1, 1, 1, validates=False, policy="randomized")
    world.memory_bytes = 89
    world.players[0].join()
    assert world.coordinator.wait(0.0)
    assert "w0 on here has 89 bytes" in str(world.coordinator.error)
    assert "take about 90" in str(world.coordinator.error)


def test_an_attempt_that_was_given_up_is_told_to_stop() -> None:
    world = World(1, 1, 1, validates=False, policy="randomized")
    (player,) = world.players
    player.join()
    world.coordinator.lose("w0", "silent")
    assert player.call(NextUnit, report=None) == Stop()
    assert player.call(Beat) == Abort()


def test_a_unit_that_hangs_ends_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(1, 1, 1, validates=False, policy="randomized")
    (player,) = world.players
    player.join()
    player.ask()
    assert player.call(Beat) == Acknowledged()
    world.coordinator._liveness._timeout = 0.0
    assert world.coordinator.look_after() == ()
    assert player.call(Beat) == Abort()
    # One that does not even beat any more is lost.
    monkeypatch.setattr(_liveness, "_SILENT_S", -1.0)
    assert world.coordinator.look_after() == ("w0",)


def test_an_observer_hears_of_units_losses_and_ended_trials() -> None:
    class Notes:
        def __init__(self) -> None:
            self.units: list[Event] = []
            self.losses: list[Loss] = []
            self.ended: list[str] = []

        def unit(self, event: Event) -> None:
            self.units.append(event)

        def worker_lost(self, loss: Loss) -> None:
            self.losses.append(loss)

        def trial_ended(self, trial: Trial) -> None:
            assert trial.status != "running"
            self.ended.append(trial.trial_id)

    notes = Notes()
    world = World(2, 2, 1, validates=True, policy="fixed", observer=notes)
    for player in world.players:
        player.join()
    world.play(lambda player, unit: player.work(fails="raised" if unit.trial_id == "c001" else None))
    world.coordinator.lose("w0", "killed")
    assert notes.units == world.coordinator.events
    assert {event.kind for event in notes.units} == {"train", "evaluate"}
    assert [loss.why for loss in notes.losses] == ["killed"]
    assert notes.ended == ["c001", "c000"]


def test_a_checkpoint_of_a_lost_attempt_is_not_counted() -> None:
    world = World(1, 1, 1, validates=False, policy="fixed")
    (player,) = world.players
    player.join()
    player.ask()
    player.work()
    world.coordinator.lose("w0", "silent")
    assert player.store() == Obsolete()
    assert world.trials[0].stored == {}


def test_a_late_word_of_an_earlier_checkpoint_hides_no_later_one() -> None:
    """Of the same version: the trial had gone back, and went on over other partitions."""
    world = World(1, 2, 2, validates=False, policy="randomized")
    slow, _ = world.players
    slow.join()
    slow.ask()
    slow.work()
    slow.ask()  # its checkpoint is on its way to the store
    slow.unit = None
    (trial,) = world.trials
    before = trial.digests[1]
    trial.rewind()
    trial.visits, trial.digests, trial.unit_sums = [(0, 9)], ["", "other"], [{}]
    trial.was_stored(1, "other")
    assert trial.durable
    slow.store()
    assert trial.durable
    assert trial.stored == {1: {"other", before}}


def test_a_store_that_takes_no_checkpoints_ends_the_run() -> None:
    world = World(1, 1, 1, validates=False, policy="fixed")
    world.coordinator.answer(CheckpointFailed(worker="w0", trial_id="c000", error="disk full"))
    assert world.coordinator.wait(0.0)
    assert "checkpoint of c000 from worker w0: disk full" in str(world.coordinator.error)


@pytest.mark.parametrize("validates", [True, False])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(validates: bool) -> None:
    world = World(1, 3, 3, validates=validates, policy="fixed")
    first, second, third = world.players
    first.join()
    for _ in range(2):
        first.ask()
        first.work()
        first.store()
    first.ask()
    (trial,) = world.trials
    assert trial.version == 2
    del world.store["c000", trial.digests[2]]
    world.coordinator.lose("w0", "killed")
    second.join()
    for version in (2, 2, 2, 1):
        second.ask()
        assert second.unit is not None
        assert second.unit.version == version
        second.work()
    assert trial.running
    third.join()
    world.alive.pop("w0")
    world.play(lambda player, _unit: player.work())
    assert (trial.status, sorted(trial.visits)) == ("finished", [(e, p) for e in range(2) for p in range(3)])


@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_damaged_checkpoint_of_the_epoch_before_is_trained_again(rounds: str) -> None:
    world = World(2, 1, 1, validates=True, policy="fixed", rounds=rounds)
    (player,) = world.players
    player.join()
    while not any(trial.epoch for trial in world.trials):
        player.ask()
        player.work()
        while player.writing:
            player.store()
    trial = max(world.trials, key=lambda trial: trial.epoch)
    assert (trial.epoch, trial.version) == (1, 1)
    del world.store[trial.trial_id, trial.digests[1]]
    world.coordinator.lose("w0", "killed")
    player.join()
    world.play(lambda player, _unit: player.work())
    assert world.coordinator.error is None
    assert [trial.status for trial in world.trials] == ["finished", "finished"]
    assert [trial.visits for trial in world.trials] == [[(0, 0), (1, 0)]] * 2
    epochs = {each.trial_id: [epoch for name, epoch in world.closed if name == each.trial_id] for each in world.trials}
    assert epochs.pop(trial.trial_id) == [0, 0, 1]
    assert list(epochs.values()) == [[0, 1]]


def test_nobody_waits_for_others_at_the_end_of_an_epoch_unless_asked_to() -> None:
    begun: dict[str, bool] = {}
    for rounds in ROUNDS:
        world = World(2, 2, 2, validates=False, policy="fixed", rounds=rounds)
        one, other = world.players
        one.join()
        other.join()
        other.ask()
        slow = other.unit.trial_id if other.unit is not None else ""
        fast = next(trial for trial in world.trials if trial.trial_id != slow)
        for _ in range(8):
            one.ask()
            if one.unit is not None:
                one.work()
            while one.writing:
                one.store()
        begun[rounds] = len(fast.visits) > len(world.all_partitions)
        assert slow
    assert begun == {"rolling": True, "together": False}


def test_a_trial_that_waits_for_its_validation_does_not_fall_behind_those_that_train() -> None:
    procedure = Listed([{"number": number} for number in range(4)], epochs=6)
    world = World(4, 2, 1, validates=True, policy="least-far-along", procedure=procedure)
    for player in world.players:
        player.join()
    spread = set()

    def work(player: Player, _unit: WorkUnit) -> None:
        epochs = [trial.epoch for trial in world.trials if trial.running]
        spread.add(max(epochs) - min(epochs))
        player.work()

    world.play(work)
    assert [trial.status for trial in world.trials] == ["finished"] * 4
    assert max(spread) == 1


def test_a_damaged_shard_ends_the_run() -> None:
    world = World(1, 1, 1, validates=False, policy="fixed")
    world.coordinator.answer(ShardFailed(worker="w0", error="shard-00000.parquet is damaged: prepare again"))
    assert world.coordinator.wait(0.0)
    assert str(world.coordinator.error) == "shard-00000.parquet is damaged: prepare again"
    assert world.trials[0].status == "running"


def test_a_process_is_known_from_its_first_beat_to_its_end() -> None:
    """Attached or not: one that loads its shards is waited for as well, when the run is over."""
    world = World(1, 1, 1, validates=False, policy="fixed")
    (player,) = world.players
    coordinator = world.coordinator
    assert coordinator.settle(0.0)
    player.attempt = 1
    assert player.call(Beat) == Acknowledged()
    coordinator.fail(KeyboardInterrupt())
    assert player.call(Beat) == Acknowledged(), "it may end in order"
    assert not coordinator.settle(0.0)
    coordinator.abort()
    assert player.call(Beat) == Abort()
    player.call(Ended, printed=None)
    assert coordinator.settle(0.0)


def test_a_process_that_went_with_its_node_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(1, 1, 1, validates=False, policy="fixed")
    world.players[0].call(Beat)
    assert not world.coordinator.settle(0.0)
    monkeypatch.setattr(_liveness, "_GONE_S", 0.0)
    assert world.coordinator.settle(0.0)


def test_what_a_unit_printed_is_in_its_trials_log_also_from_a_lost_worker() -> None:
    world = World(1, 1, 1, validates=False, policy="fixed")
    (player,) = world.players
    player.join()
    player.ask()
    assert player.unit is not None
    trial = world.coordinator.trials[0]
    player.call(NextUnit, report=None, printed=Printed(trial.trial_id, "first\n", 0, ""))
    world.coordinator.lose("w0", "gone")
    player.call(Ended, printed=Printed(trial.trial_id, "its last words\n", 0, ""))
    assert str(trial.log) == "first\nits last words\n"
    with pytest.raises(RefusedError, match="report of 'c8', which is not a trial"):
        player.call(Ended, printed=Printed("c8", "x", 0, ""))


def test_what_no_worker_of_the_run_would_say_is_refused() -> None:
    world = World(1, 1, 1, validates=False, policy="fixed")
    (player,) = world.players
    player.join()
    player.ask()
    assert player.unit is not None
    stored = {"version": 1, "digest": "", "seconds": 0.1}
    with pytest.raises(RefusedError, match="report of 'c9', which is not a trial"):
        player.call(CheckpointStored, trial_id="c9", dropped=(), **stored)
    with pytest.raises(RefusedError, match="report of 'c008', which is not a trial"):
        player.call(CheckpointStored, trial_id="c000", dropped=("c008",), **stored)
    with pytest.raises(RefusedError, match="report of 'c007', which is not a trial"):
        world.coordinator.answer(CheckpointFailed(worker="w0", trial_id="c007", error="disk full"))
    report = EvaluateReport(unit_id=player.unit.unit_id, seconds=1.0, fetched_bytes=0, sums={})
    with pytest.raises(RefusedError, match="EvaluateReport of train c000 epoch 0"):
        player.call(NextUnit, report=report)
    assert not world.coordinator.wait(0.0)
    assert world.trials[0].stored == {}
    # The unit is still the worker's: its true report counts.
    player.work()
    player.ask()
    assert world.trials[0].version == 1


def units(world: World, count: int) -> list[str]:
    """Trials of the next training units, in the order in which they are given out."""
    given: list[str] = []

    def work(player: Player, unit: WorkUnit) -> None:
        given.append(unit.trial_id)
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


@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_paused_trial_gets_no_units_and_nobody_waits_for_it(rounds: str) -> None:
    world = World(3, 2, 1, validates=False, policy="longest-remaining-elsewhere", rounds=rounds)
    for player in world.players:
        player.join()
    world.coordinator.hold("c001", held=True)
    given = units(world, 2 * 2 * EPOCHS)
    assert set(given) == {"c000", "c002"}
    for player in world.players:
        player.ask()
        assert player.unit is None
    assert world.coordinator.held_alone == ("c001",)
    assert {trial.trial_id: trial.epoch for trial in world.trials} == {"c000": EPOCHS, "c001": 0, "c002": EPOCHS}
    world.coordinator.hold("c001", held=False)
    assert world.coordinator.held_alone == ()
    world.play(lambda player, _: player.work())
    assert {trial.status for trial in world.trials} == {"finished"}


def test_a_unit_in_flight_is_finished_when_its_trial_is_paused() -> None:
    world = World(1, 2, 1, validates=False, policy="longest-remaining-elsewhere")
    for player in world.players:
        player.join()
    first = world.players[0]
    first.ask()
    assert first.unit is not None
    world.coordinator.hold("c000", held=True)
    first.work()
    first.ask()
    assert world.trials[0].version == 1
    assert first.unit is None
    world.players[1].ask()
    assert world.players[1].unit is None


def test_a_prioritised_trial_gets_every_unit_that_it_can() -> None:
    world = World(6, 1, 1, validates=False, policy="longest-remaining-elsewhere")
    world.players[0].join()
    world.coordinator.prioritise("c004")
    assert units(world, 6)[:EPOCHS] == ["c004"] * EPOCHS


def test_what_the_user_adds_and_stops_is_carried_out_at_once() -> None:
    world = World(2, 1, 1, validates=False, policy="longest-remaining-elsewhere")
    (player,) = world.players
    player.join()
    player.ask()
    assert player.unit is not None
    busy = player.unit.trial_id
    other = next(trial.trial_id for trial in world.trials if trial.trial_id != busy)
    world.coordinator.request(lambda: Stopped(busy)).result()
    world.coordinator.request(lambda: Stopped(other)).result()
    player.work()
    player.ask()
    assert [trial.reason for trial in world.trials] == ["stopped by the user"] * 2
    with pytest.raises(ProcedureError, match="the search is over"):
        world.coordinator.request(lambda: Added({"number": 7}, 1)).result()


def test_an_added_trial_trains_its_epochs_and_no_more() -> None:
    world = World(1, 2, 1, validates=True, policy="longest-remaining-elsewhere")
    for player in world.players:
        player.join()
    world.coordinator.request(lambda: Added({"number": 7}, 3)).result()
    world.play(lambda player, _: player.work())
    assert [(trial.trial_id, trial.epoch, trial.status) for trial in world.trials] == [
        ("c000", EPOCHS, "finished"),
        ("c001", 3, "finished"),
    ]


def test_what_cannot_be_asked_for_is_refused_and_changes_nothing() -> None:
    world = World(2, 1, 1, validates=False, policy="longest-remaining-elsewhere")
    world.players[0].join()
    for wrong in (Added({"number": object()}, 1), Added({"number": 1}, 0), Stopped("c009")):
        with pytest.raises((InvalidArgumentError, ProcedureError)):
            world.coordinator.request(lambda wrong=wrong: wrong).result()
    for wrong_call in (
        lambda: world.coordinator.hold("c009", held=True),
        lambda: world.coordinator.hold("c000", held=False),
        lambda: world.coordinator.prioritise("c009"),
    ):
        with pytest.raises(InvalidArgumentError):
            wrong_call()
    assert world.coordinator.error is None
    world.play(lambda player, _: player.work())
    assert [trial.status for trial in world.trials] == ["finished"] * 2


def test_every_unit_is_written_once_however_calls_and_the_end_of_the_run_fall(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two epochs may end before the first is written, and a run ends in the middle of others."""
    queue: list[Any] = []

    written: list[Event] = []
    later = SimpleNamespace(submit=lambda *call: queue.append(call), shutdown=lambda **_: None)
    monkeypatch.setattr(_epochs, "ThreadPoolExecutor", lambda *_, **__: later)
    monkeypatch.setattr(World, "note", lambda _, events: written.extend(events))
    world = World(4, 3, 1, validates=False, policy="fixed")
    for player in world.players:
        player.join()
    turns = itertools.cycle(world.players)

    def turn() -> None:
        player = next(turns)
        player.ask()
        if player.unit is not None:
            player.work()
        while player.writing:
            player.store()

    while True:
        turn()
        if queue:
            (close,) = queue.pop()
            close()
        elif written and len(world.coordinator.events) > len(written):
            break  # a unit that ends no epoch, after one that did
    close()  # as a call whose trials the one before has taken
    world.coordinator.shut_down()
    assert written == world.coordinator.events


class ClonesTheSecondEpoch(procedures.Procedure):
    """Trains one configuration for three epochs, and clones it after two."""

    def decide(self, fresh: Any, idle: int) -> None:  # noqa: ARG002 - two, one after the other
        if not self.started:
            self.start({"number": 1}, 3)
        for trial in fresh:
            if trial.finished == 2 and self.started == 1:
                self.start({"number": 2}, 1, source=procedures.Source(trial.trial_id, 2))
            if trial.waiting:
                self.stop(trial, "done")

    def plan(self) -> Any:
        return procedures.Plan("Clones", (), epochs_each=3, chain=3, configurations=1, clones=1, most_epochs=4)


@pytest.mark.parametrize("rounds", ROUNDS)
def test_nobody_waits_for_a_clone_whose_source_trains_two_epochs_again(rounds: str) -> None:
    """For the source cannot enter the second one while others wait for the clone, which waits for the source."""
    procedure = ClonesTheSecondEpoch()
    world = World(0, 2, 1, validates=False, policy="fixed", rounds=rounds, procedure=procedure)
    for player in world.players:
        player.join()
    damaged = []

    def work(player: Player, _: WorkUnit) -> None:
        source = world.trials[0]
        if len(world.trials) == 2 and not damaged and not world.coordinator._state.assignments[1:]:
            player.unit = None
            player.report = UnitFailure(unit_id=_.unit_id, reason="hop", traceback="gone")
            damaged.append(source.epoch)
            source.stored.clear()
            for each in world.players:
                each.states.clear()
            source.holder = None
            return
        player.work()

    world.play(work)
    assert damaged == [2]
    assert [trial.status for trial in world.trials] == ["finished", "finished"]
    assert [len(trial.history) for trial in world.trials] == [3, 1]
