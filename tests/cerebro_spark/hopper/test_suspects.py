"""Configurations that take their workers with them: who is blamed, tried alone and ended."""

from __future__ import annotations

import pytest
from simulated_run import Player, World, die, ids, one_call_at_a_time

from cerebro_spark.hopper import Death
from udfs.hopper import (
    EvaluateUnit,
    TrainUnit,
    WorkUnit,
)


@pytest.fixture(autouse=True)
def _in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    one_call_at_a_time(monkeypatch)


@pytest.mark.parametrize("policy", ["least-far-along", "randomized", "fixed"])
@pytest.mark.parametrize("kind", [TrainUnit, EvaluateUnit])
def test_a_configuration_that_kills_whoever_has_it_is_tried_alone_and_ended(policy: str, kind: type) -> None:
    world = World(4, 3, 2, validates=True, policy=policy)
    for player in world.players:
        player.join()
    together: list[list[str]] = []

    def work(player: Player, unit: WorkUnit) -> None:
        if ids(unit) != ["c000"] or not isinstance(unit, kind):
            player.work()
            return
        together.append([name for other in world.alive.values() if other.unit is not None for name in ids(other.unit)])
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
    killer.deaths += [Death("w0", None, 1), Death("w1", None, 2)]
    for player in world.players:
        player.ask()
    assert sorted(ids(player.unit)[0] for player in world.players if player.unit) == ["c001", "c002"]
    while first.unit is None or ids(first.unit) != ["c000"]:
        for player in world.players:
            if player.unit is not None and ids(player.unit) != ["c000"]:
                player.work()
            player.ask()
            while player.writing:
                player.store()
        holders = [player for player in world.players if player.unit and ids(player.unit) == ["c000"]]
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
    trial = world.trials[int(ids(player.unit)[0][1:])]
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
