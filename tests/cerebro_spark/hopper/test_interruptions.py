"""Workers that hand over because their machines are about to end: nothing is trained again, and no trial is blamed."""

from __future__ import annotations

import random

import pytest
from simulated_run import World, one_call_at_a_time

from udfs.hopper import Acknowledged, Beat


@pytest.fixture(autouse=True)
def _in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    one_call_at_a_time(monkeypatch)


@pytest.mark.parametrize("checkpoints", ["visits", "epochs", "end"])
@pytest.mark.parametrize("seed", range(4))
def test_twenty_workers_hand_over_between_units(checkpoints: str, seed: int) -> None:
    world = World(5, 3, 1, validates=True, policy="randomized", checkpoints=checkpoints)
    draw, interruptions = random.Random(seed), 0
    for player in world.players:
        player.join()
    for _ in range(4000):
        if world.coordinator.wait(0.0):
            break
        player = draw.choice(world.players)
        if player.name not in world.alive:
            player.join()
        elif interruptions < 20 and player.unit is None and draw.random() < 0.5:
            interruptions += 1
            player.leave()
        elif player.writing:
            player.store()
        elif player.unit is not None:
            player.work()
        else:
            player.ask()
    assert world.coordinator.wait(0.0)
    assert interruptions == 20 == len(world.coordinator.losses)
    assert world.coordinator.redone == 0, "a state was lost"
    for trial in world.trials:
        assert (trial.status, trial.deaths) == ("finished", [])
        assert world.store[trial.trial_id, trial.digests[-1]] == tuple(trial.visits)


def test_a_unit_that_does_not_end_in_time_is_run_again_and_its_trial_is_not_blamed() -> None:
    """Five in a row: after three losses, a configuration would be tried alone and ended."""
    world = World(2, 1, 1, validates=True, policy="fixed")
    (player,) = world.players
    for _ in range(5):
        player.join()
        player.ask()
        assert player.unit is not None
        player.leave()
    assert world.coordinator.redone == 5
    assert [trial.deaths for trial in world.trials] == [[], []]
    assert world.coordinator.uncharged("w0") == 0
    player.join()
    world.play(lambda player, _unit: player.work())
    assert [trial.status for trial in world.trials] == ["finished", "finished"]


def test_a_worker_whose_machine_ends_before_it_hands_over_blames_no_trial() -> None:
    """The driver has heard of the notice, and then only that the process is gone."""
    world = World(2, 1, 1, validates=True, policy="fixed")
    (player,) = world.players
    for _ in range(5):
        player.join()
        player.ask()
        assert player.unit is not None
        world.coordinator.expect_loss("w0")
        world.coordinator.lose("w0", "its process is gone")
    assert [trial.deaths for trial in world.trials] == [[], []]
    assert world.coordinator.uncharged("w0") == 0
    player.join()
    player.ask()
    world.coordinator.lose("w0", "its process is gone")
    assert sum(len(trial.deaths) for trial in world.trials) == 1, "a loss without a notice counts"


def test_a_worker_that_has_left_is_not_killed() -> None:
    """It may still hand over the states of other runs: it ends by itself."""
    world = World(1, 1, 1, validates=False, policy="fixed")
    (player,) = world.players
    player.join()
    player.leave()
    assert player.call(Beat) == Acknowledged()
