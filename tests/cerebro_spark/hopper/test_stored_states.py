"""When states go to the store: after visits, at ends of epochs, or at the end; and what a loss costs then."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from simulated_run import EPOCHS, Halves, Player, World, die, one_call_at_a_time

from cerebro_spark.hopper import CHECKPOINTS
from optimizer.procedures import Listed
from udfs.hopper import TrainUnit

if TYPE_CHECKING:
    from udfs.hopper import WorkUnit

SHARDS = 2


@pytest.fixture(autouse=True)
def _in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    one_call_at_a_time(monkeypatch)


def world(
    checkpoints: str, configs: int = 3, kind: type[World] = World, replicas: int = SHARDS, **others: Any
) -> World:
    settings: dict[str, Any] = {"validates": True, "policy": "fixed", "checkpoints": checkpoints}
    made = kind(configs, SHARDS, replicas, **settings | others)
    for player in made.players:
        player.join()
    return made


@pytest.mark.parametrize(
    ("checkpoints", "versions"), [("visits", [1, 2, 3, 4]), ("epochs", [2, 4]), ("end", [4])], ids=CHECKPOINTS
)
def test_states_that_go_to_the_store(checkpoints: str, versions: list[int]) -> None:
    made = world(checkpoints)
    made.play(lambda player, _unit: player.work())
    assert {trial.status for trial in made.trials} == {"finished"}
    for trial in made.trials:
        assert sorted(len(state) for (name, _), state in made.store.items() if name == trial.trial_id) == versions
        assert trial.durable


@pytest.mark.parametrize("checkpoints", CHECKPOINTS)
def test_a_loss_costs_what_was_trained_since_and_changes_nothing_else(checkpoints: str) -> None:
    undisturbed = world(checkpoints)
    undisturbed.play(lambda player, _unit: player.work())
    for seed in range(30):
        made = world(checkpoints)
        draw = random.Random(seed)
        losses = [1]

        def work(player: Player, _unit: WorkUnit, draw: random.Random = draw, losses: list[int] = losses) -> None:
            if losses and draw.random() < 0.1:
                losses.pop()
                die(player)
            else:
                player.work()

        made.play(work)
        assert {trial.status for trial in made.trials} == {"finished"}
        assert [trial.visits for trial in made.trials] == [trial.visits for trial in undisturbed.trials]
        # What was in flight; and of each whose state went, one visit, or two that it was trained on in a row: the
        # worker before still has the state that it had.
        assert made.coordinator.redone <= 1 + 2 * len(made.trials)


@pytest.mark.parametrize(("checkpoints", "left"), [("visits", 0), ("epochs", 1), ("end", 1)], ids=CHECKPOINTS)
def test_the_worker_before_has_the_state_that_it_had(checkpoints: str, left: int) -> None:
    """Where every visit is written, it would lie in memory for nothing; here the store is slow."""
    made = world(checkpoints, 1, replicas=1, validates=False)
    (trial,) = made.trials
    while trial.version < SHARDS:
        for player in made.players:
            player.ask()
            if player.unit is not None:
                player.work()
    last = next(player for player in made.players if player.name == trial.holder)
    die(last)
    assert trial.version == left
    assert trial.holder == next((player.name for player in made.players if left and player is not last), None)
    made.play(lambda player, _unit: player.work())
    assert trial.status == "finished"
    assert trial.copy is None
    assert made.coordinator.redone == SHARDS - left


class Unlucky(World):
    """Loses a worker, with the states that it alone has, while the results of the first epoch are being written."""

    def note(self, events: Any) -> None:  # of those that a test is told
        if not self.closed and self.alive:
            for player in list(self.alive.values()):
                die(player)
            assert [trial.epoch for trial in self.trials] == [0] * len(self.trials), "it went back in the meantime"


def test_a_loss_while_results_are_written_takes_trials_back_afterwards() -> None:
    made = world("end", kind=Unlucky, procedure=Listed([{"number": 0}], epochs=EPOCHS))
    made.play(lambda player, _unit: player.work())
    (trial,) = made.trials
    assert trial.status == "finished"
    assert made.closed == [("c000", 0), ("c000", 0), ("c000", 1)]
    assert sorted(trial.visits) == [(epoch, shard) for epoch in range(EPOCHS) for shard in range(SHARDS)]
    assert made.coordinator.redone == SHARDS


def test_a_trial_that_may_train_more_is_stored_when_the_epochs_so_far_are_over() -> None:
    """In successive halving, it is unknown whether the trial continues."""
    made = world("end", 0, procedure=Halves())
    seen: dict[str, list[bool]] = {}

    def work(player: Player, unit: WorkUnit) -> None:
        if isinstance(unit, TrainUnit):
            for member in unit.members:
                seen.setdefault(member.trial_id, []).append(member.stores)
        player.work()

    made.play(work)
    assert seen == {
        "c000": [False, True],
        "c001": [False, True, False, True],
        "c002": [False, True],
        "c003": [False, True, False, True],
    }
