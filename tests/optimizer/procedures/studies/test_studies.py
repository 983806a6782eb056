"""Studies in and out: what a search knows from the start, and what it leaves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spaces import few, spaces

from benchmarks.procedures.simulation import simulate
from optimizer.errors import InvalidArgumentError
from optimizer.procedures import DivergedLogError, Hyperband, RandomSampler, Sequential, replay
from optimizer.procedures.studies import OptunaSampler, ended_trials, study_of
from optimizer.space import Space, choice, uniform

if TYPE_CHECKING:
    from benchmarks.procedures._course import Simulation
    from optimizer.procedures import Trial

PLANE = Space({"x": uniform(-5, 5), "y": uniform(-5, 5)})
NETS = Space({"net": choice({"cnn": {"width": [1, 2]}, "lstm": {"width": [8, 16]}, "linear": {}})})
FLOAT = optuna.distributions.FloatDistribution(-5.0, 5.0)


def hollow(trial: Trial, epoch: int) -> float:
    return (trial.params["x"] - 1) ** 2 + (trial.params["y"] + 2) ** 2 + 1 / epoch


def course(sampler: Any, count: int = 6) -> Simulation:
    return simulate(Sequential(sampler, configurations=count, epochs=2, concurrency=1), hollow, 1.0, 1)


def study(*points: tuple[float, float], direction: str = "minimize") -> optuna.Study:
    made = optuna.create_study(direction=direction)
    for x, y in points:
        made.add_trial(
            optuna.trial.create_trial(
                value=(x - 1) ** 2 + (y + 2) ** 2, params={"x": x, "y": y}, distributions={"x": FLOAT, "y": FLOAT}
            )
        )
    return made


GRID = [(float(x), float(y)) for x in range(-4, 5, 2) for y in range(-4, 5, 2)]


def test_a_sampler_that_knows_a_study_starts_where_it_was_good() -> None:
    known = course(OptunaSampler(PLANE, "tpe", seed=1, study=study(*GRID)))
    unknown = course(OptunaSampler(PLANE, "tpe", seed=1))
    assert [hollow(trial, 1) < 15 for trial in known.ledger].count(True) >= 5
    assert [hollow(trial, 1) < 15 for trial in unknown.ledger].count(True) <= 3


def test_what_the_study_learns_later_does_not_count() -> None:
    """A run goes on with the number of trials that it began with, and is refused with more."""
    growing = study(*GRID)
    whole = course(OptunaSampler(PLANE, "tpe", seed=1, study=growing))
    assert "knows 25 trials of a study" in whole.log[0].decisions[0].reason
    growing.add_trials(study((1.5, -1.5), (4.0, 4.0)).trials)

    def again(**settings: Any) -> Sequential:
        sampler = OptunaSampler(PLANE, "tpe", seed=1, study=growing, **settings)
        return Sequential(sampler, configurations=6, epochs=2, concurrency=1)

    replay(again(study_trials=25), whole.log)
    with pytest.raises(DivergedLogError, match=r"knows 25 trials of a study.*knows 27 trials of a study"):
        replay(again(), whole.log)


def test_trials_count_in_the_order_in_which_they_ended() -> None:
    running = optuna.create_study()
    first, second = running.ask({"x": FLOAT}), running.ask({"x": FLOAT})
    running.tell(second, 1.0)
    running.tell(first, 2.0)
    running.tell(running.ask({"x": FLOAT}), state=optuna.trial.TrialState.FAIL)
    assert [trial.number for trial in ended_trials(running)] == [1, 0]
    assert [trial.number for trial in ended_trials(running, 1)] == [1]


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (Space({"lr": uniform(0, 1)}), "trial 0 of the study must have the parameter 'lr', got x, y"),
        (Space({"x": uniform(-5, 5)}), "trial 0 of the study must have parameters of the search space, x, got 'y'"),
        (
            Space({"x": uniform(-5, 5), "z": uniform(0, 1)}),
            "trial 0 of the study must have the parameter 'z', got x, y",
        ),
        (
            Space({"x": uniform(0, 5), "y": uniform(-5, 5)}),
            r"trial 0 of the study must belong to the search space: x must be within",
        ),
    ],
    ids=["others", "one more", "one less", "outside"],
)
def test_a_study_of_other_parameters_is_refused(space: Space, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        OptunaSampler(space, "tpe", study=study(*GRID))


def test_what_is_no_such_study_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"an optuna.Study"):
        OptunaSampler(PLANE, "tpe", study="sqlite:///study.db")
    knows_two = OptunaSampler(PLANE, "tpe", study=optuna.create_study(directions=["minimize", "maximize"]))
    with pytest.raises(
        InvalidArgumentError, match="study must have the objectives of the search, loss, got 2 objectives"
    ):
        Sequential(knows_two, configurations=1, epochs=1)
    with pytest.raises(
        InvalidArgumentError, match="study_trials must be at most 25, the complete and pruned trials of the study,"
    ):
        OptunaSampler(PLANE, "tpe", study=study(*GRID), study_trials=26)
    upside_down = OptunaSampler(PLANE, "tpe", study=study(*GRID, direction="maximize"))
    with pytest.raises(
        InvalidArgumentError, match="direction of the study must be minimize, as for loss, got maximize"
    ):
        course(upside_down)


def test_a_search_leaves_a_study_of_all_its_trials() -> None:
    search = Hyperband(RandomSampler(PLANE, 3), max_epochs=9)
    ledger = simulate(search, lambda trial, epoch: None if trial.number == 4 else hollow(trial, epoch), 1.0, 2).ledger
    left = study_of(PLANE, ledger)
    assert [trial.user_attrs["trial_id"] for trial in left.trials] == [trial.trial_id for trial in ledger]
    for ours, theirs in zip(ledger, left.trials, strict=True):
        assert theirs.params == ours.params
        assert theirs.intermediate_values == {epoch: hollow(ours, epoch) for epoch in range(1, ours.finished + 1)}
        assert theirs.state.name == ("FAIL" if ours.number == 4 else "COMPLETE" if ours.finished == 9 else "PRUNED")
        assert theirs.value == (None if ours.number == 4 else hollow(ours, ours.finished))
    ended = [trial for trial in ledger if trial.finished == 9]
    assert left.best_value == min(hollow(trial, 9) for trial in ended)
    assert set(optuna.importance.get_param_importances(left)) == {"x", "y"}


def test_a_trial_that_diverged_has_failed_in_the_study() -> None:
    search = Sequential(RandomSampler(PLANE), configurations=2, epochs=3)
    ledger = simulate(search, lambda trial, epoch: math.nan if trial.number and epoch == 2 else 1.0, 1.0, 1).ledger
    left = study_of(PLANE, ledger)
    assert [trial.state.name for trial in left.trials] == ["COMPLETE", "FAIL"]
    assert left.trials[1].intermediate_values == {1: 1.0}


def test_branches_that_share_a_name_are_parameters_of_their_own() -> None:
    search = Sequential(RandomSampler(NETS, 1), configurations=12, epochs=1)
    left = study_of(NETS, simulate(search, lambda trial, _: float(trial.number), 1.0, 1).ledger)
    assert {tuple(trial.params) for trial in left.trials} == {
        ("net", "net[cnn].width"),
        ("net", "net[lstm].width"),
        ("net",),
    }


@few
@given(space=spaces(), seed=st.integers(0, 1000))
def test_what_one_search_leaves_the_next_one_knows(space: Space, seed: int) -> None:
    """Any space, with branches, conditions, steps: the same configurations come back."""
    search = Sequential(RandomSampler(space, seed), configurations=5, epochs=1)
    ledger = simulate(search, lambda trial, _: float(trial.number), 1.0, 1).ledger
    sampler = OptunaSampler(space, "tpe", study=study_of(space, ledger))
    assert [sampler._translation.configuration(trial) for trial in sampler._known] == [trial.params for trial in ledger]
