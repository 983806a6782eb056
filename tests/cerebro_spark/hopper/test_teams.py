"""Teams of simulated workers: their formation, their meetings, and their ends when a worker fails or is lost."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from simulated_run import Halves, World, die, one_call_at_a_time

from cerebro_spark.hopper import _teams
from optimizer.hybrids import Measured
from udfs.hopper import Abort, Acknowledged, Apart, Beat, JointReport, JointUnit, Meet, Met, TrainUnit, WorkUnit

if TYPE_CHECKING:
    from simulated_run import Player


@pytest.fixture(autouse=True)
def _in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    one_call_at_a_time(monkeypatch)


def world(configs: int, workers: int, **settings: Any) -> World:
    """Make a run whose workers are there."""
    made = World(configs, workers, 1, **{"validates": True, "policy": "fixed", "hybrid": "all_reduce"} | settings)
    for player in made.players:
        player.join()
    return made


def gathered(made: World) -> list[Player]:
    """Let all workers ask until they have a joint unit, and return them."""
    for _ in range(2):
        for player in made.players:
            if player.unit is None:
                player.ask()
    assert all(isinstance(player.unit, JointUnit) for player in made.players)
    return made.players


def kinds(made: World, work: Any = None) -> list[str]:
    """Play a run to its end, and return the kind of each training unit that a worker got."""
    seen = []

    def note(player: Player, unit: WorkUnit) -> None:
        if isinstance(unit, TrainUnit):
            seen.append("joint" if isinstance(unit, JointUnit) else "hop")
        (work or (lambda player, _unit: player.work()))(player, unit)

    made.play(note)
    assert made.coordinator.wait(0.0)
    assert made.coordinator.error is None
    return seen


def test_one_configuration_is_trained_by_all_workers() -> None:
    made = world(1, 3)
    assert kinds(made) == ["joint"] * 6
    (trial,) = made.trials
    assert trial.visits == [(epoch, partition) for epoch in range(2) for partition in range(3)]
    assert trial.version == 6
    assert trial.digests[1:3] == ["", ""]
    assert trial.durable_version == 6
    trained = [event for event in made.coordinator.events if event.kind == "train"]
    assert [event.ranks for event in trained] == [3] * 6


def test_as_many_configurations_as_workers_hop() -> None:
    assert set(kinds(world(3, 3))) == {"hop"}


def test_the_tail_of_a_search_is_shared() -> None:
    made = world(4, 3, procedure=Halves(metric="loss"), rounds="together")
    seen = kinds(made)
    assert seen[:12] == ["hop"] * 12  # four configurations, three shards
    assert set(seen[12:]) == {"joint"}
    assert [len(trial.history) for trial in made.trials] == [1, 2, 1, 2]


@pytest.mark.parametrize("reported", [0, 1, 2])
def test_a_lost_worker_ends_the_team_and_the_trial_hops(reported: int) -> None:
    made = world(1, 3)
    players = gathered(made)
    for player in players[1 : 1 + reported]:
        player.work()
        player.ask()
    die(players[0])
    for player in players[1 + reported :]:
        assert isinstance(player.call(Meet, unit_id=player.unit.unit_id), Apart)
        player.work()
        player.ask()
    assert kinds(made).count("joint") == 3  # the second epoch
    (trial,) = made.trials
    assert trial.status == "finished"
    assert trial.hopping == {0}
    assert sorted(trial.visits) == [(epoch, partition) for epoch in range(2) for partition in range(3)]


def test_a_worker_that_is_lost_after_the_epoch_changes_nothing() -> None:
    made = world(1, 2)
    first, second = gathered(made)
    first.work()
    first.ask()
    die(second)
    (trial,) = made.trials
    assert trial.version == 2
    assert not trial.hopping
    assert not trial.deaths
    assert set(kinds(made)) == {"joint"}


def test_an_error_of_the_user_ends_the_trial() -> None:
    made = world(2, 3)

    def work(player: Player, unit: WorkUnit) -> None:
        raises = isinstance(unit, JointUnit) and unit.rank == 0 and unit.members[0].trial_id == "c001"
        player.work(fails="raised" if raises else None)

    kinds(made, work)
    assert [trial.status for trial in made.trials] == ["finished", "raised"]


def test_a_declined_unit_is_trained_by_hopping_and_its_measurements_are_kept() -> None:
    made = world(1, 2, hybrid="auto")
    slow = Measured(8, 4, 0.01, 0.006, 1000, 3000, 10.0, 9.0, 2)

    def work(player: Player, unit: WorkUnit) -> None:
        if not isinstance(unit, JointUnit):
            player.work()
            return
        assert unit.mode == "auto"
        assert unit.configurations == 1
        nothing: dict[str, Any] = {"seconds": 0.0, "fetched_bytes": 0, "exchanged_bytes": 0.0, "trained": None}
        player.report = JointReport(unit_id=unit.unit_id, **nothing, measured=slow, declined="too slow")
        player.unit = None

    assert kinds(made, work) == ["joint", "joint", *["hop"] * 4]
    assert made.trials[0].status == "finished"


def test_ranks_exchange_messages_in_their_order() -> None:
    made = world(1, 2)
    first, second = gathered(made)
    unit_id = first.unit.unit_id
    assert second.call(Meet, unit_id=unit_id, message="b") == Acknowledged()
    assert first.call(Meet, unit_id=unit_id, message="a") == Met(("a", "b"))
    assert second.call(Meet, unit_id=unit_id, message="b") == Met(("a", "b"))
    assert second.call(Meet, unit_id=unit_id) == Acknowledged()
    assert second.call(Meet, unit_id="another") == Apart("the unit is over")


def test_a_rank_that_waits_is_told_at_once_that_another_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_teams, "_POLL_S", 60.0)
    made = world(1, 2)
    first, second = gathered(made)
    replies: list[Any] = []
    waiting = threading.Thread(
        target=lambda: replies.append(second.call(Meet, unit_id=second.unit.unit_id, message="b")), daemon=True
    )
    waiting.start()
    made.alive.pop(first.name)
    made.coordinator.lose(first.name, "killed")
    waiting.join(10)
    assert [type(reply) for reply in replies] == [Apart]


def test_the_process_of_a_rank_that_does_not_notice_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(1, 2)
    made.players[1].join()  # a second attempt, which no other worker has
    first, second = gathered(made)
    made.alive.pop(first.name)
    made.coordinator.lose(first.name, "killed")
    made.coordinator.look_after()
    assert second.call(Beat) == Acknowledged()
    monkeypatch.setattr(_teams, "_REPORT_S", 0.0)
    made.coordinator.look_after()
    assert second.call(Beat) == Abort()
