"""Checkpoints that are late, damaged or not taken, and shards that are damaged."""

from __future__ import annotations

from typing import Any

import pytest
from simulated_run import Player, World, one_call_at_a_time

from cerebro_spark.hopper import ROUNDS
from optimizer import procedures
from udfs.hopper import (
    CheckpointFailed,
    Obsolete,
    ShardFailed,
    UnitFailure,
    WorkUnit,
)


@pytest.fixture(autouse=True)
def _in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    one_call_at_a_time(monkeypatch)


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
        assert second.unit.members[0].version == version
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


def test_weights_to_begin_with_that_the_store_does_not_give_end_the_trial() -> None:
    """Those of an earlier run, which the worker reads; it is not tried for ever."""
    world = World(2, 1, 1, validates=False, policy="fixed")
    (player,) = world.players
    player.join()
    tries = []

    def work(player: Player, unit: WorkUnit) -> None:
        tries.extend(member.version for member in unit.members if member.trial_id == "c000")
        player.work(fails={"c000": "hop"})

    world.play(work)
    first, other = world.trials
    assert (first.status, other.status) == ("failed", "finished")
    assert "weights of an earlier run" in first.traceback
    assert tries == [0, 0, 0]


class ClonesTheSecondEpoch(procedures.Procedure):
    """Trains one configuration for three epochs, and clones it after two."""

    def decide(self, fresh: Any, idle: int) -> None:  # two, one after the other
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


def test_a_damaged_shard_ends_the_run() -> None:
    world = World(1, 1, 1, validates=False, policy="fixed")
    world.coordinator.answer(ShardFailed(worker="w0", error="shard-00000.parquet is damaged: prepare again"))
    assert world.coordinator.wait(0.0)
    assert str(world.coordinator.error) == "shard-00000.parquet is damaged: prepare again"
    assert world.trials[0].status == "running"
