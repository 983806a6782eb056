"""Conflicts, refusals and effects of commands."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.steering import (
    Add,
    Clone,
    Configuration,
    End,
    Extend,
    Pause,
    Prioritise,
    Progress,
    Resume,
    Stop,
    conflict,
    effect,
    refusal,
)


@pytest.fixture
def progress() -> Progress:
    running = Configuration("c000", {"lr": 0.1, "hidden": 8}, 5, history=[{"loss": 0.5}] * 2)
    waiting = Configuration("c001", {"lr": 0.2, "hidden": 8}, 2, history=[{"loss": 0.7}] * 2, reason="rung 0")
    waiting.set_status("paused")
    over = Configuration("c002", {"lr": 0.3, "hidden": 8}, 5, history=[{"loss": 0.9}], reason="rank 3 of 3")
    over.set_status("finished")
    fresh = Configuration("c003", {"lr": 0.4, "hidden": 8}, 5)
    failed = Configuration("c004", {"lr": 0.5, "hidden": 8}, 5)
    failed.set_status("raised")
    every = {each.trial_id: each for each in (running, waiting, over, fresh, failed)}
    return Progress(epochs=4, workers=2, seconds=100.0, configurations=every)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (Stop("c01"), "trial must be a configuration of the run, got 'c01'; did you mean 'c001'?"),
        (Stop("c002"), "trial must be running or paused, got c002, which has ended (finished: rank 3 of 3). Clone it"),
        (Prioritise("c002"), "trial must be running or paused, got c002"),
        (Resume("c000"), "trial must be paused by a user, got c000, which is running."),
        (Resume("c001"), "trial must be paused by a user, got c001, which is paused by the procedure"),
        (Extend("c004", 2), "trial must have neither failed nor diverged, got c004, which has (raised). Clone one of"),
        (Clone("c003", {}), "trial must have finished an epoch, got c003, which has none"),
        (Clone("c000", {}, 3), "epoch must be a finished epoch of c000, 1 to 2, got 3. Leave it out for the last one"),
        (Clone("c000", {"Lr": 1}), "params must be among lr, hidden, got 'Lr'; did you mean 'lr'?"),
        (Clone("c000", {"lr": "zz"}), "lr must be a number, such as 0.1, got 'zz'."),
        (Add({"lr": 0.1, "hiden": 8}), "params must be among lr, hidden, got 'hiden'; did you mean 'hidden'?"),
        (Add({"lr": True, "hidden": 8}), "lr must be a number, such as 0.1, got True."),
        (Add({"lr": 0.1}), "params must have hidden, as all configurations of the run, got lr."),
    ],
)
def test_an_impossible_command_is_refused_with_a_remedy(progress: Progress, command: Any, message: str) -> None:
    assert str(refusal(command, progress)).startswith(message)


@pytest.mark.parametrize(
    "command",
    [
        Stop("c000"),
        Pause("c000"),
        Clone("c002", {"lr": 1}, 1),
        Prioritise("c001"),
        End(),
        Extend("c002", 1),
        Add({"lr": 1, "hidden": 2.5}),
    ],
)
def test_a_possible_command_is_not_refused_until_the_run_is_over(progress: Progress, command: Any) -> None:
    assert refusal(command, progress) is None
    progress.over = True
    assert str(refusal(command, progress)).startswith("run must be running, got one that is over. Resume the search")


def test_a_space_with_branches_gives_configurations_different_names(progress: Progress) -> None:
    progress.configurations["c000"].params = {"lr": 0.1, "momentum": None}
    assert refusal(Add({"lr": 0.2, "momentum": 0.9}), progress) is None
    assert refusal(Add({"lr": 0.2, "hidden": 8}), progress) is None
    assert refusal(Add({"hidden": 8}), progress) == "params must have lr, as all configurations of the run, got hidden."
    assert refusal(Add({"width": 8}), Progress()) is None


def test_a_conflict_tells_the_changes(progress: Progress) -> None:
    known = progress.configurations["c000"]
    known.record_change("started")
    known.record_change("granted 2 more epochs: rank 1")
    known.record_change("ada asked to pause it")
    assert conflict(Stop("c000"), 3, progress) is None
    assert conflict(Stop("c000"), None, progress) is None
    assert conflict(Stop("c000"), 1, progress) == (
        "c000 has changed since revision 1: granted 2 more epochs: rank 1; ada asked to pause it. Load it again before "
        "you stop it"
    )
    assert "revision must be at most 3" in str(conflict(Stop("c000"), 4, progress))
    assert conflict(Add({}), 0, progress) is None and conflict(Stop("c009"), 0, progress) is None


@pytest.mark.parametrize(
    ("command", "epochs", "seconds", "end_seconds", "sentence"),
    [
        # 5 finished epochs took 100 seconds.
        (Add({"lr": 1}), 4, 80.0, 40.0, "A new configuration trains for 4 epochs."),
        (Add({"lr": 1}, 1), 1, 20.0, 10.0, "A new configuration trains for 1 epoch."),
        (Clone("c000", {"lr": 1}), 4, 80.0, 40.0, "A copy of c000 after epoch 2 trains for 4 epochs with lr = 1 inst"),
        (Clone("c000", {}, 1, 2), 2, 40.0, 20.0, "A copy of c000 after epoch 1 trains for 2 epochs."),
        (Extend("c000", 2), 2, 40.0, 20.0, "c000 trains for 2 more epochs, once the procedure has ended it."),
        (Extend("c002", 1), 1, 20.0, 10.0, "c002, which is finished, continues after epoch 1 for 1 more epoch."),
        (Stop("c000"), -3, -60.0, -30.0, "c000 keeps 2 finished epochs; 3 granted epochs are not trained."),
        (Stop("c001"), 0, 0.0, 0.0, "c001 keeps 2 finished epochs; 0 granted epochs are not trained."),
        (End(), -8, -160.0, -80.0, "The search ends; 3 configurations keep their finished epochs; 8 granted epochs ar"),
        (Pause("c000"), 0, 0.0, 0.0, "c000 pauses after its unit in flight; 3 granted epochs wait until a user resum"),
        (Resume("c000"), 0, 0.0, 0.0, "c000 continues with 3 granted epochs."),
        (Prioritise("c000"), 0, 0.0, 0.0, "Units of c000 are assigned before those of 2 other configurations."),
    ],
)
def test_an_effect(
    progress: Progress, command: Any, epochs: int, seconds: float, end_seconds: float, sentence: str
) -> None:
    predicted = effect(command, progress)
    assert (predicted.epochs, predicted.seconds, predicted.end_seconds) == (epochs, seconds, end_seconds)
    assert predicted.sentences[0].startswith(sentence)
    assert predicted.document()["sentences"] == list(predicted.sentences)


def test_an_effect_without_a_measured_epoch_has_no_time(progress: Progress) -> None:
    progress.seconds = 0.0
    predicted = effect(Add({"lr": 1}), progress)
    assert (predicted.epochs, predicted.seconds, predicted.end_seconds) == (4, None, None)
    assert predicted.sentences[1] == "The time is unknown until the first epoch has finished."


def test_the_time_is_told_in_a_fitting_unit(progress: Progress) -> None:
    assert (
        "saves about 60 s of work; the search ends about 30 s earlier on 2 workers"
        in effect(Stop("c000"), progress).sentences[1]
    )
    progress.seconds *= 1000
    assert "adds about 22 h of work; the search ends about 11 h later" in effect(Add({"lr": 1}), progress).sentences[1]
