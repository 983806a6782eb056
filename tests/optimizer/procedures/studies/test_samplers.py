"""Optuna's samplers: what they are told, what they give, and that a resumed run is the same."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Any

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from procedure_contract import ProcedureContract
from spaces import LR_BATCH_NET, few, spaces

from benchmarks.procedures.simulation import simulate
from optimizer.errors import InvalidArgumentError
from optimizer.procedures import (
    ASHA,
    Added,
    DivergedLogError,
    Ended,
    EpochResult,
    Exchange,
    Hyperband,
    Limits,
    Patience,
    RandomSampler,
    Sequential,
    Source,
    Start,
    SuccessiveHalving,
    replay,
)
from optimizer.procedures.studies import OptunaSampler
from optimizer.space import Space, choice, integer, uniform

if TYPE_CHECKING:
    from optimizer.procedures import Procedure, Trial

PLANE = Space({"x": uniform(-5, 5), "y": uniform(-5, 5)})
STATES = optuna.trial.TrialState


def hollow(trial: Trial, epoch: int) -> float:
    return (trial.params["x"] - 1) ** 2 + (trial.params["y"] + 2) ** 2 + 1 / epoch


def study_of(sampler: OptunaSampler) -> optuna.Study:
    assert sampler._follower is not None
    study: optuna.Study = sampler._follower.study
    return study


def quick(space: Space, **settings: Any) -> OptunaSampler:
    """A TPE that learns after three trials, so that short searches see it learn."""
    return OptunaSampler(space, optuna.samplers.TPESampler(seed=1, n_startup_trials=3), **settings)


class TestSequentialContract(ProcedureContract):
    def make(self, **settings: Any) -> Procedure:
        return Sequential(quick(LR_BATCH_NET), configurations=8, epochs=2, concurrency=3, **settings)


class TestIdleContract(ProcedureContract):
    def make(self, **settings: Any) -> Procedure:
        return Sequential(quick(LR_BATCH_NET), configurations=8, epochs=2, **settings)


class TestEvolutionContract(ProcedureContract):
    def make(self, **settings: Any) -> Procedure:
        sampler = optuna.samplers.NSGAIISampler(seed=1, population_size=4)
        return Sequential(OptunaSampler(LR_BATCH_NET, sampler), configurations=9, epochs=1, concurrency=3, **settings)


class TestHalvingContract(ProcedureContract):
    def make(self, **settings: Any) -> Procedure:
        return SuccessiveHalving(quick(LR_BATCH_NET), configurations=9, max_epochs=3, **settings)


class TestHyperbandContract(ProcedureContract):
    def make(self, **settings: Any) -> Procedure:
        return Hyperband(quick(LR_BATCH_NET), max_epochs=4, eta=2, **settings)


class TestASHAContract(ProcedureContract):
    def make(self, **settings: Any) -> Procedure:
        return ASHA(quick(LR_BATCH_NET), max_epochs=4, eta=2, **{"limits": Limits(max_configurations=8)} | settings)


def test_tpe_finds_a_hollow_that_random_search_misses() -> None:
    def best(sampler: Any) -> float:
        course = simulate(Sequential(sampler, configurations=40, epochs=2, concurrency=2), hollow, 1.0, 2)
        assert course.ledger.best is not None
        return course.ledger.value(course.ledger.best.best_score)

    tpe = statistics.median(best(OptunaSampler(PLANE, "tpe", seed=seed)) for seed in range(10))
    random = statistics.median(best(RandomSampler(PLANE, seed)) for seed in range(10))
    assert tpe < random - 0.3  # 0.59 and 1.28; the least that there is is 0.5


def test_hyperband_with_tpe_learns_between_its_brackets() -> None:
    """BOHB: the later brackets start nearer to the minimum than the first ones, which have no measurements."""

    def far(brackets: str) -> float:
        return statistics.median(
            statistics.mean(hollow(trial, 1) for trial in list(course.ledger)[9:])
            for seed in range(10)
            for course in [simulate(search(seed, brackets), hollow, 1.0, 2)]
        )

    def search(seed: int, brackets: str) -> Hyperband:
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=3)
        return Hyperband(OptunaSampler(PLANE, sampler), max_epochs=9, brackets=brackets)

    assert far("in turn") < 0.8 * far("together")


def test_brackets_are_in_turn_where_the_sampler_learns() -> None:
    assert "in turn" in str(Hyperband(OptunaSampler(PLANE), max_epochs=9).plan())
    assert "in turn" not in str(Hyperband(RandomSampler(PLANE), max_epochs=9).plan())
    together = str(Hyperband(OptunaSampler(PLANE), max_epochs=9, brackets="together").plan())
    assert "draws all before the first has trained" in together


@few
@given(space=spaces(), seed=st.integers(0, 2**32 - 1))
def test_what_is_suggested_belongs_to_the_space(space: Space, seed: int) -> None:
    """Eight of random, three of them before it learns; also by the way back from the study's parameters."""
    sampler = OptunaSampler(space, optuna.samplers.TPESampler(seed=seed, n_startup_trials=3))
    search = Sequential(sampler, configurations=8, epochs=1, concurrency=1)
    simulate(search, lambda trial, _: float(trial.number % 3), 1.0, 1)
    sampler.suggest(8, search.ledger)
    for trial, theirs in zip(search.ledger, study_of(sampler).trials, strict=False):
        space.check(trial.params)
        assert sampler._translation.configuration(theirs) == trial.params
        parameters, distributions = sampler._translation.parameters(trial.params)
        assert parameters.keys() == theirs.params.keys()
        assert distributions == theirs.distributions


def test_a_step_is_met_exactly() -> None:
    """Optuna's third step of 0.1 is 0.30000000000000004, which no user wrote."""
    space = Space({"rate": uniform(0.1, 0.4, step=0.1), "odd": integer(1, 8, step=3)})
    course = simulate(Sequential(quick(space), configurations=30, epochs=1, concurrency=1), lambda *_: 1.0, 1.0, 1)
    assert {trial.params["rate"] for trial in course.ledger} == {0.1, 0.2, 0.3, 0.4}
    assert {trial.params["odd"] for trial in course.ledger} == {1, 4, 7}


def test_options_that_python_takes_for_the_same_stay_apart() -> None:
    space = Space({"depth": choice([0, False, "x"])})
    course = simulate(Sequential(quick(space), configurations=30, epochs=1, concurrency=1), lambda *_: 1.0, 1.0, 1)
    assert {repr(trial.params["depth"]) for trial in course.ledger} == {"0", "False", "'x'"}


def test_the_condition_of_the_space_holds_for_every_suggestion() -> None:
    space = Space({"x": uniform(-5, 5), "y": uniform(-5, 5)}, where=lambda params: params["x"] < params["y"] - 4)
    sampler = quick(space)
    course = simulate(Sequential(sampler, configurations=8, epochs=1, concurrency=1), hollow, 1.0, 1)
    assert all(trial.params["x"] < trial.params["y"] - 4 for trial in course.ledger)
    refused = [trial for trial in study_of(sampler).trials if trial.state == STATES.FAIL]
    assert refused


def test_a_condition_that_optuna_does_not_meet_gets_a_random_configuration() -> None:
    """One in a thousand: after a hundred refusals the space's own draw comes, which is patient."""
    space = Space({"x": uniform(0, 1)}, where=lambda params: params["x"] < 0.004)
    sampler = OptunaSampler(space, "nsgaii", seed=3)
    course = simulate(Sequential(sampler, configurations=2, epochs=1, concurrency=1), lambda *_: 1.0, 1.0, 1)
    assert [trial.params for trial in course.ledger] == [space.sample(3, 0), space.sample(3, 1)]


def test_optuna_hears_every_epoch_and_how_it_ended() -> None:
    """Steps count from 1; complete, pruned with the last value, failed, diverged, stopped by the user."""
    sampler = OptunaSampler(PLANE, "tpe", seed=1)
    search = Sequential(
        sampler, configurations=7, epochs=3, concurrency=6, metric="auc", mode="max", stoppers=[Patience(1)]
    )
    search.ask()
    search.ask([EpochResult(f"c{number:03d}", 1, {"auc": 0.5}) for number in range(5)])
    search.ask([EpochResult("c000", 2, {"auc": 0.6}), EpochResult("c001", 2, {"auc": 0.4}), Ended("c002", "raised")])
    search.ask([EpochResult("c000", 3, {"auc": 0.7}), EpochResult("c003", 2, {"auc": math.nan})])
    search.ask([Ended("c004", "stopped by the user"), Ended("c005", "failed")])
    sampler.suggest(7, search.ledger)
    trials = study_of(sampler).trials
    assert [trial.state.name for trial in trials[:6]] == ["COMPLETE", "PRUNED", "FAIL", "FAIL", "PRUNED", "FAIL"]
    assert trials[0].intermediate_values == {1: 0.5, 2: 0.6, 3: 0.7}
    assert [trials[place].value for place in (0, 1, 4)] == [0.7, 0.4, 0.5]
    assert study_of(sampler).direction.name == "MAXIMIZE"
    assert trials[6].state.name == "RUNNING"


def test_tpe_learns_from_configurations_that_users_add() -> None:
    """Those of a user draw the first suggestions to the hollow; one outside of the space teaches nothing."""

    def suggested(guests: list[Added], seed: int) -> list[float]:
        sampler = OptunaSampler(Space({"x": uniform(0, 1)}), optuna.samplers.TPESampler(seed=seed, n_startup_trials=5))
        search = Sequential(sampler, configurations=4, epochs=1, concurrency=1)
        starts: list[Any] = [start for start in search.ask(guests) if isinstance(start, Start)]
        while starts:
            losses = {start.trial_id: abs(start.params["x"] - 0.3) for start in starts}
            decisions = search.ask([EpochResult(name, 1, {"loss": loss}) for name, loss in losses.items()])
            starts = [decision for decision in decisions if isinstance(decision, Start)]
        return [trial.params["x"] for trial in search.ledger if not trial.guest][1:]

    def distance(guests: list[Added]) -> float:
        return statistics.mean(abs(x - 0.3) for seed in range(8) for x in suggested(guests, seed))

    assert distance([Added({"x": x / 12}, 1) for x in range(13)]) < 0.5 * distance([])
    assert suggested([Added({"x": 9.0}, 1)], 0) == suggested([], 0)


def test_a_clone_teaches_with_its_lineage() -> None:
    sampler = OptunaSampler(PLANE, "tpe", seed=1)
    search = Sequential(sampler, configurations=2, epochs=2, concurrency=1)
    search.ask()
    search.ask([EpochResult("c000", 1, {"loss": 0.9})])
    search.ask([Added({"x": 1.0, "y": 2.0}, 1, Source("c000", 1))])
    search.ask([EpochResult("c001", 1, {"loss": 0.4}), EpochResult("c000", 2, {"loss": 0.8})])
    (clone,) = [trial for trial in study_of(sampler).trials if trial.params["x"] == 1.0]
    assert clone.state == STATES.COMPLETE
    assert clone.intermediate_values == {1: 0.9, 2: 0.4}


def test_who_waits_for_a_promotion_teaches_the_sampler() -> None:
    """In ASHA most wait for ever; one that is promoted after all comes once more, with what it came to."""
    sampler = quick(PLANE)
    search = ASHA(sampler, max_epochs=9, limits=Limits(max_configurations=14))
    course = simulate(search, lambda trial, epoch: trial.number + 1 / epoch, 1.0, 2)
    sampler.suggest(14, course.ledger)
    trials = study_of(sampler).trials
    for trial in course.ledger:
        of_it = [theirs for theirs in trials if theirs.params == trial.params]
        assert max(of_it[-1].intermediate_values) == trial.finished
        assert of_it[-1].state == (STATES.COMPLETE if trial.finished == 9 else STATES.PRUNED)
    assert len(trials) > len(course.ledger) + 1


def test_a_sampler_of_ones_own_needs_a_seed() -> None:
    with pytest.raises(InvalidArgumentError, match="sampler must have a seed, so that a resumed run is the same,"):
        OptunaSampler(PLANE, optuna.samplers.TPESampler(), seed=7)


def test_a_sampler_that_cannot_sample_says_so_before_anything_is_trained() -> None:
    grid = optuna.samplers.GridSampler({"x": [1, 2]}, seed=1)
    with pytest.raises(InvalidArgumentError, match="sampler must support the search space,"):
        OptunaSampler(PLANE, grid)


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        ("tpa", "did you mean 'tpe'"),
        (7, r"sampler must be a name or a sampler of Optuna, such as TPESampler\(seed=0\),"),
        (None, r"sampler must be a name or a sampler of Optuna, such as TPESampler\(seed=0\),"),
    ],
)
def test_no_sampler(sampler: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        OptunaSampler(PLANE, sampler)


def test_one_sampler_object_serves_two_searches() -> None:
    shared = optuna.samplers.TPESampler(seed=1, n_startup_trials=3)
    courses = [
        simulate(Sequential(OptunaSampler(PLANE, shared), configurations=9, epochs=1, concurrency=1), hollow, 1.0, 1)
        for _ in range(2)
    ]
    assert courses[0].log == courses[1].log


def test_another_seed_is_another_run_and_refused() -> None:
    def search(seed: int) -> Sequential:
        return Sequential(OptunaSampler(PLANE, "tpe", seed=seed), configurations=4, epochs=1, concurrency=1)

    course = simulate(search(1), hollow, 1.0, 1)
    replay(search(1), [Exchange.of(exchange.document()) for exchange in course.log])
    with pytest.raises(DivergedLogError, match="differs"):
        replay(search(2), course.log)
