"""What the user asks of a run that goes on: pauses, priorities, additions, stops."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from simulated_run import EPOCHS, World, ids, one_call_at_a_time, units

from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.hopper import ROUNDS
from optimizer.procedures import Added, Origin, ProcedureError, Stopped


@pytest.fixture(autouse=True)
def _in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    one_call_at_a_time(monkeypatch)


@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_paused_trial_gets_no_units_and_nobody_waits_for_it(rounds: str) -> None:
    world = World(3, 2, 1, validates=False, policy="longest-remaining-elsewhere", rounds=rounds)
    for player in world.players:
        player.join()
    world.coordinator.set_paused("c001", paused=True)
    given = units(world, 2 * 2 * EPOCHS)
    assert set(given) == {"c000", "c002"}
    for player in world.players:
        player.ask()
        assert player.unit is None
    assert world.coordinator.only_paused_left == ("c001",)
    assert {trial.trial_id: trial.epoch for trial in world.trials} == {"c000": EPOCHS, "c001": 0, "c002": EPOCHS}
    world.coordinator.set_paused("c001", paused=False)
    assert world.coordinator.only_paused_left == ()
    world.play(lambda player, _: player.work())
    assert {trial.status for trial in world.trials} == {"finished"}


def test_a_unit_in_flight_is_finished_when_its_trial_is_paused() -> None:
    world = World(1, 2, 1, validates=False, policy="longest-remaining-elsewhere")
    for player in world.players:
        player.join()
    first = world.players[0]
    first.ask()
    assert first.unit is not None
    world.coordinator.set_paused("c000", paused=True)
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
    busy = ids(player.unit)[0]
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


def test_a_command_that_is_sent_again_is_not_carried_out_again() -> None:
    world = World(1, 2, 1, validates=False, policy="longest-remaining-elsewhere")
    for player in world.players:
        player.join()
    origin, other = (Origin(command, "ada", "2026-11-29") for command in ("first", "second"))
    once = world.coordinator.request(lambda: Added({"number": 7}, 3, origin=origin), origin).result()
    again = world.coordinator.request(lambda: Added({"number": 7}, 3, origin=origin), origin).result()
    assert again == once
    world.coordinator.request(lambda: Added({"number": 7}, 3, origin=other), other).result()
    assert [trial.trial_id for trial in world.trials] == ["c000", "c001", "c002"]
    world.coordinator.request(lambda: Stopped("c001", origin=Origin("third", "ada", "")), Origin("third", "ada", ""))
    world.play(lambda player, _: player.work())
    assert [trial.reason for trial in world.trials][1] == "stopped by the user"


def test_what_cannot_be_asked_for_is_refused_and_changes_nothing() -> None:
    world = World(2, 1, 1, validates=False, policy="longest-remaining-elsewhere")
    world.players[0].join()
    for wrong in (Added({"number": object()}, 1), Added({"number": 1}, 0), Stopped("c009")):
        with pytest.raises((InvalidArgumentError, ProcedureError)):
            world.coordinator.request(lambda wrong=wrong: wrong).result()
    for wrong_call in (
        lambda: world.coordinator.set_paused("c009", paused=True),
        lambda: world.coordinator.set_paused("c000", paused=False),
        lambda: world.coordinator.prioritise("c009"),
    ):
        with pytest.raises(InvalidArgumentError):
            wrong_call()
    assert world.coordinator.error is None
    world.play(lambda player, _: player.work())
    assert [trial.status for trial in world.trials] == ["finished"] * 2


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    history=st.lists(st.tuples(st.integers(0, 40), st.sampled_from(["pause", "resume", "stop"]), st.integers(0, 3))),
    rounds=st.sampled_from(ROUNDS),
)
def test_any_history_of_pauses_and_stops_leaves_the_visits_of_others(
    history: list[tuple[int, str, int]], rounds: str
) -> None:
    """With a fixed order, the state of a configuration is that of the same visits in the same order."""
    undisturbed = visits_after([], rounds)
    disturbed = visits_after(history, rounds)
    stopped = {f"c{number:03d}" for _, kind, number in history if kind == "stop"}
    assert {name: visits for name, visits in disturbed.items() if name not in stopped} == {
        name: visits for name, visits in undisturbed.items() if name not in stopped
    }
    for name in stopped:
        assert disturbed[name] == undisturbed[name][: len(disturbed[name])]


def visits_after(history: list[tuple[int, str, int]], rounds: str) -> dict[str, list[tuple[int, int]]]:
    """Train four configurations to their ends; list the visits of each."""
    world = World(4, 3, 1, validates=False, policy="fixed", rounds=rounds)
    for player in world.players:
        player.join()
    for step in range(1000):
        for due, kind, number in history:
            if due == step:
                ask(world, kind, f"c{number:03d}")
        if world.coordinator.wait(0.0):
            break
        for name in world.coordinator.only_paused_left:
            world.coordinator.set_paused(name, paused=False)
        player = world.players[step % 3]
        if player.unit is None:
            player.ask()
        else:
            player.work()
        while player.writing:
            player.store()
    assert world.coordinator.wait(0.0)
    return {trial.trial_id: list(trial.visits) for trial in world.trials}


def ask(world: World, kind: str, name: str) -> None:
    with suppress(InvalidArgumentError, ProcedureError):
        if kind == "stop":
            world.coordinator.request(lambda: Stopped(name)).result()
        else:
            world.coordinator.set_paused(name, paused=kind == "pause")
