"""The driver's side under any sequence of faults, with simulated workers: what it gives out always adds up."""

from __future__ import annotations

import itertools
import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_run import EPOCHS, Player, World, ids, one_call_at_a_time

from cerebro_spark.hopper import ROUNDS, Trial, _epochs, _liveness
from optimizer.procedures import Listed
from udfs.hopper import (
    Abort,
    Acknowledged,
    Beat,
    CheckpointFailed,
    CheckpointStored,
    Ended,
    EvaluateReport,
    MemberFailure,
    NextUnit,
    Printed,
    Stop,
    TrainReport,
    WorkUnit,
)
from udfs.rpc import RefusedError

if TYPE_CHECKING:
    from cerebro_spark.hopper import Event, Loss


@pytest.fixture(autouse=True)
def _in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    one_call_at_a_time(monkeypatch)


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
    hybrid=st.sampled_from(["off", "all_reduce"]),
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
    hybrid: str,
) -> None:
    settings: dict[str, Any] = {"validates": validates, "policy": policy, "rounds": rounds, "hybrid": hybrid}
    world = World(configs, workers, min(workers, 1 + extra), **settings)
    world.coordinator._recovery._rejoin_s = rejoin_s
    draw = random.Random(seed)
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
            # Otherwise the next attempt takes its place before the coordinator has noticed.
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


def test_one_that_raises_ends_alone() -> None:
    world = World(3, 2, 1, validates=True, policy="longest-remaining-first")
    for player in world.players:
        player.join()
    world.play(lambda player, unit: player.work(fails="raised" if ids(unit) == ["c001"] else None))
    assert [trial.status for trial in world.trials] == ["finished", "raised", "finished"]
    assert "user's" in world.trials[1].traceback


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
    world.play(lambda player, unit: player.work(fails="raised" if ids(unit) == ["c001"] else None))
    world.coordinator.lose("w0", "killed")
    assert notes.units == world.coordinator.events
    assert {event.kind for event in notes.units} == {"train", "evaluate"}
    assert [loss.why for loss in notes.losses] == ["killed"]
    assert notes.ended == ["c001", "c000"]


def test_nobody_waits_for_others_at_the_end_of_an_epoch_unless_asked_to() -> None:
    begun: dict[str, bool] = {}
    for rounds in ROUNDS:
        world = World(2, 2, 2, validates=False, policy="fixed", rounds=rounds)
        one, other = world.players
        one.join()
        other.join()
        other.ask()
        slow = ids(other.unit)[0] if other.unit is not None else ""
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
    report = EvaluateReport(unit_id=player.unit.unit_id, members=())
    with pytest.raises(RefusedError, match=r"must be a TrainReport of train c000 epoch 0 .*, got EvaluateReport"):
        player.call(NextUnit, report=report)
    failure = MemberFailure(trial_id="c006", reason="raised", traceback="")
    with pytest.raises(RefusedError, match=r"of train c000 epoch 0 .* must have the trials c000, got c006"):
        player.call(NextUnit, report=TrainReport(unit_id=player.unit.unit_id, members=(failure,)))
    assert not world.coordinator.wait(0.0)
    assert world.trials[0].stored == {}
    # The unit is still the worker's: its true report counts.
    player.work()
    player.ask()
    assert world.trials[0].version == 1


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
