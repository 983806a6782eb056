"""What each algorithm decides, against tables of the papers and against naive implementations."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rehearsal import Rehearsal

from benchmarks.procedures.simulation import simulate
from optimizer.errors import InvalidArgumentError
from optimizer.procedures import (
    ASHA,
    PBT,
    AgingEvolution,
    Continue,
    Ended,
    EpochResult,
    Hyperband,
    Limits,
    Listed,
    ListedSampler,
    Pause,
    RandomSampler,
    RandomSearch,
    Replay,
    Schedule,
    Segment,
    Source,
    Start,
    Stop,
    SuccessiveHalving,
    decision_document,
    read_decision,
    schedule_of,
)
from optimizer.procedures._rungs import bracket_rungs, rung_epochs, whole_log
from optimizer.space import Space, choice, log_uniform, uniform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.procedures import Decision, Procedure, Trial

SPACE = Space({"lr": log_uniform(1e-5, 1e-1), "batch": choice([16, 32, 64, 128, 256])})


def numbered(count: int) -> ListedSampler:
    return ListedSampler({"number": number} for number in range(count))


def by_number(trial: Trial, epoch: int) -> float:
    return trial.number + 1 / epoch


def told(values: dict[str, float], epoch: int, metric: str = "loss") -> list[EpochResult]:
    return [EpochResult(name, epoch, {metric: value}) for name, value in values.items()]


def ids(decisions: Sequence[Decision], kind: type) -> list[str]:
    return [decision.trial_id for decision in decisions if isinstance(decision, kind)]


@pytest.mark.parametrize("base", [2, 3, 4, 5, 10])
@pytest.mark.parametrize("exponent", range(1, 13))
def test_a_logarithm_in_integers_is_exact_at_every_power(base: int, exponent: int) -> None:
    assert whole_log(base**exponent, base) == exponent
    assert whole_log(base**exponent - 1, base) == exponent - 1
    assert whole_log(base**exponent + 1, base) == exponent


def test_floats_would_lose_a_bracket() -> None:
    assert int(math.log(243, 3)) == 4
    assert Hyperband(numbered(1), max_epochs=243).plan().stages[0].name == "bracket 5, rung 0"


def test_the_brackets_of_hyperband_for_81_epochs() -> None:
    """By the formula of Algorithm 1. Table 1 of the paper rounds down too early: 27, 9 and 6 in brackets 3, 2 and 1."""
    assert [bracket_rungs(81, 3, bracket) for bracket in (4, 3, 2, 1, 0)] == [
        ((81, 1), (27, 3), (9, 9), (3, 27), (1, 81)),
        ((34, 3), (11, 9), (3, 27), (1, 81)),
        ((15, 9), (5, 27), (1, 81)),
        ((8, 27), (2, 81)),
        ((5, 81),),
    ]


def test_the_brackets_of_the_seeds() -> None:
    """R = 25 and eta = 3, of Section A.4.1."""
    assert [bracket_rungs(25, 3, bracket) for bracket in (2, 1, 0)] == [
        ((9, 2), (3, 8), (1, 25)),
        ((5, 8), (1, 25)),
        ((3, 25),),
    ]
    assert Hyperband(numbered(17), max_epochs=25, eta=3).plan().epochs == 185


def test_hyperband_of_one_epoch_is_one_configuration() -> None:
    search = Hyperband(numbered(3), max_epochs=1)
    assert simulate(search, by_number, 1.0, 1).ledger.epochs == 1
    assert len(search.ledger) == 1


@given(st.integers(1, 400), st.integers(2, 6))
def test_rungs_follow_the_formula_in_exact_fractions(most: int, eta: int) -> None:
    top = whole_log(most, eta)
    for bracket in range(top + 1):
        rungs = bracket_rungs(most, eta, bracket)
        count = rungs[0][0]
        assert (count - 1) * (bracket + 1) < (top + 1) * eta**bracket <= count * (bracket + 1)
        for rung, (configurations, epochs) in enumerate(rungs):
            assert configurations * eta**rung <= count < (configurations + 1) * eta**rung
            assert epochs * eta ** (bracket - rung) <= most < (epochs + 1) * eta ** (bracket - rung)
        assert rungs[-1][0] >= 1
        assert rungs[-1][1] == most


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=2, max_size=30), st.integers(1, 12), st.integers(2, 4), st.integers(0, 3))
def test_the_survivors_of_successive_halving_are_those_of_sorting(
    losses: list[int], most: int, eta: int, order: int
) -> None:
    """Ties included; the loss of a configuration changes from epoch to epoch."""

    def measure(trial_id: str, epoch: int) -> float:
        return losses[int(trial_id[1:])] * 10 + (epoch * int(trial_id[1:])) % 7

    search = SuccessiveHalving(numbered(len(losses)), configurations=len(losses), max_epochs=most, eta=eta)
    stages = search.plan().stages
    run = Rehearsal(search, measure, order).run()
    alive = list(run.granted)
    for stage, following in zip(stages, [*stages[1:], None], strict=True):
        assert len(alive) == stage.configurations
        if following is not None:
            alive.sort(key=lambda name: (measure(name, stage.reaches), name))
            assert {run.finished[name] for name in alive[following.configurations :]} == {stage.reaches}
            alive = alive[: following.configurations]
    assert {run.finished[name] for name in alive} == {most}


def test_halving_keeps_the_number_of_the_plan_when_some_fail() -> None:
    search = SuccessiveHalving(numbered(9), configurations=9, max_epochs=9)
    search.ask()
    results = told({f"c00{number}": float(number) for number in range(6)}, 1)
    decisions = search.ask([*results, *(Ended(f"c00{number}", "failed") for number in (6, 7, 8))])
    assert ids(decisions, Continue) == ["c000", "c001", "c002"]
    assert ids(decisions, Stop) == ["c003", "c004", "c005"]
    assert "place 4 of 9, 3 go on" in search.ledger["c003"].reason
    decisions = search.ask([Ended("c000", "failed"), Ended("c001", "failed"), *told({"c002": math.nan}, 2)])
    assert decisions == [Stop("c002", "diverged: loss is nan")]
    assert search.done
    assert search.best is not None
    assert search.best.trial_id == "c003"


def test_a_rung_waits_for_its_last_one_and_says_so() -> None:
    search = SuccessiveHalving(numbered(3), configurations=3, max_epochs=3)
    search.ask()
    assert search.ask(told({"c001": 1.0, "c002": 2.0}, 1)) == [
        Pause("c001", "rung 0: waits for 1 others"),
        Pause("c002", "rung 0: waits for 1 others"),
    ]
    assert search.ask(told({"c000": 3.0}, 1)) == [
        Stop("c002", "rung 0: place 2 of 3, 1 go on"),
        Stop("c000", "rung 0: place 3 of 3, 1 go on"),
        Continue("c001", 2, "rung 0: place 1 of 3, promoted"),
    ]


def test_brackets_train_side_by_side_or_in_turn() -> None:
    together = Hyperband(numbered(99), max_epochs=9)
    assert len(ids(together.ask(), Start)) == 9 + 5 + 3
    in_turn = Hyperband(numbered(99), max_epochs=9, brackets="in turn")
    assert len(ids(in_turn.ask(), Start)) == 9
    assert in_turn.ask() == []
    assert len(ids(in_turn.ask(idle=1), Start)) == 5


@pytest.mark.parametrize(("rungs", "reached"), [("milestones", [1, 3, 9]), ("additive", [1, 4, 13])])
def test_the_rungs_of_asha(rungs: str, reached: list[int]) -> None:
    """Additive ones are the seeds': 1 + 3 + 9 = 13 epochs (Section 3.6.3)."""
    search = ASHA(numbered(27), max_epochs=9, rungs=rungs, concurrency=4)
    run = Rehearsal(search, lambda name, epoch: int(name[1:]) + epoch / 100).run()
    assert sorted(Counter(run.finished.values())) == reached
    assert rung_epochs(9, 3, 2) == (1, 3, 9)


def test_asha_promotes_the_highest_rung_first() -> None:
    search = ASHA(numbered(99), max_epochs=4, eta=2, concurrency=1)
    search.ask()
    trace = []
    for number in range(10):
        (running,) = search.ledger.running
        epochs = range(running.finished + 1, running.granted + 1)
        results = [EpochResult(running.trial_id, epoch, {"loss": 100.0 - number}) for epoch in epochs]
        trace += [decision for decision in search.ask(results) if not isinstance(decision, Pause)]
    assert [(type(decision).__name__, decision.trial_id) for decision in trace[:9]] == [
        ("Start", "c001"),
        ("Continue", "c001"),
        ("Start", "c002"),
        ("Continue", "c002"),
        ("Continue", "c002"),
        ("Stop", "c002"),
        ("Start", "c003"),
        ("Continue", "c003"),
        ("Continue", "c003"),
    ]


def halves() -> ASHA:
    """Eight trials at a time, four of which have finished rung 0; rungs at 1, 2 and 4 epochs."""
    search = ASHA(numbered(99), max_epochs=4, eta=2)
    search.ask(idle=8)
    assert ids(search.ask(told({"c000": 0.0, "c001": 1.0, "c002": 2.0, "c003": 3.0}, 1)), Pause) == [
        "c000",
        "c001",
        "c002",
        "c003",
    ]
    return search


def test_of_two_rungs_with_a_promotion_the_higher_one_has_the_slot() -> None:
    search = halves()
    assert ids(search.ask(idle=2), Continue) == ["c000", "c001"]
    search.ask([*told({"c000": 0.5, "c001": 0.4}, 2), *told({"c004": -1.0, "c005": -1.0}, 1)])
    assert search.ask(idle=1) == [Continue("c001", 2, "rung 1: place 1 of 2, promoted")]
    assert search.ask(idle=1) == [Continue("c004", 1, "rung 0: place 1 of 6, promoted")]


def test_one_that_ended_while_it_waited_leaves_its_place() -> None:
    search = halves()
    search.ask([Ended("c000", "stopped by the user"), Ended("c001", "stopped by the user")])
    assert search.ask(idle=1) == [Continue("c002", 1, "rung 0: place 1 of 4, promoted")]


def test_one_that_ended_on_its_way_takes_no_place_in_the_rung() -> None:
    search = ASHA(numbered(99), max_epochs=9, concurrency=1, eta=2, min_epochs=2)
    search.ask()
    assert search._reached == (2, 4, 9)
    for number in (0, 1):
        name = f"c00{number}"
        search.ask([*told({name: 1.0 - number}, 1), *told({name: 1.0 - number}, 2)])
    search.ask([*told({"c001": -9.0}, 3), Ended("c001", "stopped by the user")])
    for epoch in (1, 2, 3, 4):
        decisions = search.ask(told({"c002": -1.0}, epoch))
    assert decisions == [
        Pause("c002", "rung 1: waits until it is among the best 1 / 2 there"),
        Continue("c002", 5, "rung 1: place 1 of 2, promoted"),
    ]


class NaiveAsha:
    """Algorithm 2 of the paper, with lists that are sorted anew for every job."""

    def __init__(self, reached: Sequence[int], eta: int) -> None:
        self.reached, self.eta = reached, eta
        self.rungs: list[dict[str, float]] = [{} for _ in reached]
        self.promoted: list[set[str]] = [set() for _ in reached]
        self.started = 0

    def job(self) -> tuple[str, int]:
        for rung in range(len(self.rungs) - 2, -1, -1):
            ranked = sorted(self.rungs[rung], key=lambda name: (self.rungs[rung][name], name))
            for name in ranked[: len(ranked) // self.eta]:
                if name not in self.promoted[rung] and self.rungs[rung][name] < math.inf:
                    self.promoted[rung].add(name)
                    return name, rung + 1
        self.started += 1
        return f"c{self.started - 1:03d}", 0


@settings(max_examples=25, deadline=None)
@given(
    st.data(),
    st.integers(1, 5),
    st.integers(2, 4),
    st.sampled_from([1, 2, 9, 27]),
    st.sampled_from(["milestones", "additive"]),
)
def test_asha_decides_as_the_naive_one(data: st.DataObject, slots: int, eta: int, most: int, rungs: str) -> None:
    """One job ends at a time, in any order; losses tie often, and some fail."""
    search = ASHA(numbered(999), max_epochs=most, eta=eta, rungs=rungs, concurrency=slots)
    naive = NaiveAsha(search._reached, eta)
    jobs = dict(naive.job() for _ in range(slots))
    assert ids(search.ask(), Start) == list(jobs)
    for _ in range(40):
        name = data.draw(st.sampled_from(sorted(jobs)))
        loss = data.draw(st.sampled_from([1.0, 2.0, 3.0, 4.0, math.inf]))
        rung = jobs.pop(name)
        trial = search.ledger[name]
        if loss == math.inf:
            decisions = search.ask([Ended(name, "failed")])
        else:
            epochs = range(trial.finished + 1, trial.granted + 1)
            decisions = search.ask([EpochResult(name, epoch, {"loss": loss}) for epoch in epochs])
        naive.rungs[rung][name] = loss
        following, to = naive.job()
        jobs[following] = to
        assert [*ids(decisions, Start), *ids(decisions, Continue)] == [following]
        assert search.ledger[following].granted == naive.reached[to]


def test_asha_starts_as_many_as_find_a_slot_idle() -> None:
    search = ASHA(numbered(99), max_epochs=9)
    assert len(search.ask()) == 1
    assert len(search.ask(idle=3)) == 3
    assert ids(search.ask(told({"c000": 1.0}, 1)), Start) == []
    assert ids(search.ask(told({"c001": 2.0}, 1), idle=2), Start) == ["c004", "c005"]


def test_random_configurations_of_k_are_the_first_of_2k() -> None:
    few = RandomSearch(SPACE, configurations=5, epochs=1, seed=7).ask()
    many = RandomSearch(SPACE, configurations=10, epochs=1, concurrency=10, seed=7).ask()
    assert many[:5] == few
    assert RandomSearch(SPACE, configurations=5, epochs=1, seed=8).ask() != few


def test_a_list_has_every_configuration_once_in_its_order() -> None:
    space = Space({"lr": choice([0.1, 0.2]), "net": choice({"a": {"width": choice([1, 2])}, "b": {}})})
    started = [decision.params for decision in Listed(space.grid(), epochs=1).ask() if isinstance(decision, Start)]
    assert started == space.grid()
    assert len(started) == 6


def test_a_list_may_have_epochs_of_its_own_for_each() -> None:
    search = Listed([{"n": 0}, {"n": 1}, {"n": 2}], epochs=[3, 1, 3])
    plan = search.plan()
    assert (plan.epochs_each, plan.most_epochs) == (3, 7)
    assert [(stage.configurations, stage.epochs) for stage in plan.stages] == [(1, 1), (2, 3)]
    simulate(search, lambda _, epoch: 1 / epoch, seconds=1.0, workers=2)
    assert [trial.finished for trial in search.ledger] == [3, 1, 3]
    assert {trial.reason for trial in search.ledger} == {"finished its 3 epochs", "finished its 1 epochs"}
    with pytest.raises(InvalidArgumentError, match="epochs must have a number for each of the 1 configurations, got 2"):
        Listed([{"n": 0}], epochs=[1, 2])


def test_concurrency_is_the_number_beside_each_other() -> None:
    """|S| = p, the seeds' emulation of HyperOpt; idle slots do not change it."""
    search = RandomSearch(SPACE, configurations=32, epochs=1, concurrency=8)
    assert len(search.ask(idle=3)) == 8
    decisions = search.ask(told({"c001": 1.0, "c003": 1.0}, 1), idle=4)
    assert ids(decisions, Stop) == ["c001", "c003"]
    assert ids(decisions, Start) == ["c008", "c009"]


def pbt(**arguments: Any) -> PBT:
    return PBT(SPACE, **{"population": 8, "epochs": 6, "ready": 2, **arguments})


def advance(search: Procedure, losses: dict[str, float]) -> list[Decision]:
    """Let all that train finish what they were granted, and tell it at once."""
    results = [
        EpochResult(trial.trial_id, epoch, {"loss": losses[trial.trial_id]})
        for trial in search.ledger.running
        for epoch in range(trial.finished + 1, trial.granted + 1)
    ]
    return search.ask(results)


def test_a_generation_of_pbt() -> None:
    """Of eight, the worst two end as clones of the best two, which go on themselves."""
    search = pbt()
    search.ask()
    decisions = advance(search, {f"c00{number}": float(number) for number in range(8)})
    assert ids(decisions, Stop) == ["c006", "c007"]
    assert ids(decisions, Continue) == [f"c00{number}" for number in range(6)]
    clones = [decision for decision in decisions if isinstance(decision, Start)]
    assert [clone.trial_id for clone in clones] == ["c008", "c009"]
    for clone in clones:
        assert clone.source is not None
        assert clone.source.trial_id in {"c000", "c001"}
        assert clone.source.epoch == 2
        assert clone.epochs == 2
        source = search.ledger[clone.source.trial_id]
        assert search.ledger[clone.trial_id].curve == source.scores
        assert clone.params != source.params or clone.reason.endswith("unchanged")


def test_both_of_the_best_are_cloned_and_values_stay_in_bounds() -> None:
    sources: Counter[str] = Counter()
    space = Space({"lr": uniform(0.9, 1.0)})
    for seed in range(30):
        search = PBT(space, population=4, epochs=9, quantile=0.5, seed=seed)
        search.ask()
        for decision in advance(search, {f"c00{number}": float(number) for number in range(4)}):
            if isinstance(decision, Start):
                assert decision.source is not None
                assert 0.9 <= decision.params["lr"] <= 1.0
                sources[decision.source.trial_id] += 1
    assert set(sources) == {"c000", "c001"}
    assert min(sources.values()) > 15


def test_only_some_values_are_changed() -> None:
    search = pbt(only=["lr"], quantile=0.5)
    run = Rehearsal(search, lambda name, _: float(int(name[1:]) % 8)).run()
    clones = [trial for trial in run.procedure.ledger if trial.source is not None]
    assert clones
    for trial in clones:
        assert trial.source is not None
        assert trial.params["batch"] == search.ledger[trial.source.trial_id].params["batch"]
    assert any(trial.params != search.ledger[trial.source.trial_id].params for trial in clones if trial.source)


@pytest.mark.parametrize(("resample", "scaled"), [(0.0, True), (1.0, False)])
def test_values_are_scaled_or_drawn_anew(resample: float, scaled: bool) -> None:
    search = pbt(resample=resample, factors=[0.5], only=["lr"], quantile=0.5)
    search.ask()
    decisions = advance(search, {f"c00{number}": float(number) for number in range(8)})
    clones = [decision for decision in decisions if isinstance(decision, Start)]
    assert len(clones) == 4
    for clone in clones:
        assert clone.source is not None
        rate = search.ledger[clone.source.trial_id].params["lr"]
        assert (clone.params["lr"] == pytest.approx(max(1e-5, rate / 2))) is scaled


def test_a_member_that_failed_is_replaced_like_the_worst() -> None:
    search = pbt(population=4)
    search.ask()
    results = [*told({"c000": 3.0, "c001": 2.0, "c003": 1.0}, 1), Ended("c002", "failed")]
    search.ask(results)
    decisions = search.ask(told({"c000": 3.0, "c001": 2.0, "c003": 1.0}, 2))
    assert ids(decisions, Stop) == []
    assert [decision.source for decision in decisions if isinstance(decision, Start)] == [Source("c003", 2)]


def test_rolling_generations_wait_for_nobody() -> None:
    search = pbt(population=4, ready=1, generations="rolling")
    search.ask()
    assert ids(search.ask(told({"c000": 1.0}, 1)), Continue) == ["c000"]
    decisions = search.ask(told({"c003": 2.0}, 1))
    assert ids(decisions, Stop) == ["c003"]
    assert [decision.source for decision in decisions if isinstance(decision, Start)] == [Source("c000", 1)]
    assert search.ask([Ended("c001", "failed")])[0].trial_id == "c005"


def test_a_rolling_member_that_failed_first_is_replaced_once_another_has_measured() -> None:
    search = pbt(population=2, ready=1, generations="rolling")
    search.ask()
    assert search.ask([Ended("c001", "failed")]) == []
    decisions = search.ask(told({"c000": 1.0}, 1))
    assert ids(decisions, Continue) == ["c000"]
    assert [decision.source for decision in decisions if isinstance(decision, Start)] == [Source("c000", 1)]


def test_the_schedule_of_the_best_replays_alone() -> None:
    """The lineage's params, each for the epochs that it gave; and the same chain of clones."""

    def losses(trial: Trial, epoch: int) -> float:
        return abs(math.log10(trial.params["lr"]) + 6) + 1 / (epoch + len(trial.curve))

    search = pbt(population=6, epochs=12, seed=2)
    best = simulate(search, losses, 1.0, 3).ledger.best
    assert best is not None
    schedule = schedule_of(search.ledger, best.trial_id)
    assert len(schedule.segments) > 2
    assert schedule.epochs == len(best.curve)
    assert schedule.segments[-1] == Segment(best.params, best.finished)
    assert Schedule.of(schedule.document()) == schedule
    alone = Replay(schedule)
    trained = simulate(alone, losses, 1.0, 1).ledger
    assert [trial.params for trial in trained] == [segment.params for segment in schedule.segments]
    assert [trial.finished for trial in trained] == [segment.epochs for segment in schedule.segments]
    for parent, trial in zip(trained, list(trained)[1:], strict=False):
        assert trial.source == Source(parent.trial_id, parent.finished)


def test_a_clone_made_before_its_source_went_on_has_its_epochs_only() -> None:
    search = pbt(population=2, epochs=6, ready=2)
    search.ask()
    advance(search, {"c000": 1.0, "c001": 2.0})
    advance(search, {"c000": 5.0, "c002": 0.5})
    schedule = schedule_of(search.ledger, "c002")
    assert [segment.epochs for segment in schedule.segments] == [2, 2]
    assert search.ledger["c002"].curve == [-1.0, -1.0, -0.5, -0.5]
    assert search.ledger["c003"].curve == [-1.0, -1.0, -0.5, -0.5]
    assert [segment.epochs for segment in schedule_of(search.ledger, "c002", 1).segments] == [2, 1]


def test_aging_evolution_mutates_the_best_of_its_sample_and_forgets_the_oldest() -> None:
    search = AgingEvolution(SPACE, population=3, configurations=40, epochs=1, sample=3, concurrency=1, seed=1)
    finished: list[str] = []
    decisions = search.ask()
    while not search.done:
        (start,) = [decision for decision in decisions if isinstance(decision, Start)]
        if len(finished) >= 3:
            parent = start.reason.removeprefix("mutation of ")
            assert parent in finished[-3:]
            before = search.ledger[parent].params
            assert sum(before[name] != value for name, value in start.params.items()) == 1
        # The very first one would be the parent of all, if it did not die.
        finished.append(start.trial_id)
        decisions = search.ask(told({start.trial_id: float(len(finished))}, 1))
    assert len(finished) == 40


def test_with_the_whole_population_as_its_sample_often_the_best_is_the_parent() -> None:
    search = AgingEvolution(SPACE, population=2, configurations=60, epochs=1, sample=2, concurrency=1, seed=1)
    reasons = []
    decisions = search.ask()
    while not search.done:
        (start,) = [decision for decision in decisions if isinstance(decision, Start)]
        reasons.append(start.reason)
        decisions = search.ask(told({start.trial_id: float(int(start.trial_id[1:]) % 2)}, 1))
    even = sum(int(reason[-3:]) % 2 == 0 for reason in reasons[2:])
    # The better of the two is drawn at least once of two times: three quarters.
    assert 0.6 < even / len(reasons[2:]) < 0.9


def test_a_child_inherits_from_the_last_epoch_of_its_parent_and_counts_its_own_epochs() -> None:
    search = AgingEvolution(
        SPACE, population=2, configurations=6, epochs=2, sample=2, concurrency=1, inherit_weights=True
    )
    decisions = search.ask()
    while not search.done:
        (start,) = [decision for decision in decisions if isinstance(decision, Start)]
        later = start.reason.startswith("mutation of ")
        assert start.source == (
            Source(start.reason.removeprefix("mutation of "), 2, weights_only=True) if later else None
        )
        assert read_decision(decision_document(start)) == start
        search.ask(told({start.trial_id: 3.0}, 1))
        decisions = search.ask(told({start.trial_id: 1.0 + search.started}, 2))
        assert search.ledger[start.trial_id].curve == search.ledger[start.trial_id].scores
        assert len(schedule_of(search.ledger, start.trial_id).segments) == 1


def test_nothing_is_inherited_from_parents_without_a_finite_metric() -> None:
    search = AgingEvolution(
        SPACE, population=2, configurations=3, epochs=1, sample=2, concurrency=1, inherit_weights=True
    )
    search.ask()
    search.ask([Ended("c000", "failed")])
    (start,) = [each for each in search.ask(told({"c001": math.nan}, 1)) if isinstance(each, Start)]
    assert start.source is None


def test_aging_evolution_repeats_a_configuration_only_if_all_changes_of_its_parent_are_trained() -> None:
    widths = [8, 16, 32, 64, 128]
    search = AgingEvolution(Space({"width": widths}), population=2, configurations=9, epochs=1, concurrency=1, seed=3)
    trained: list[int] = []
    decisions = search.ask()
    while not search.done:
        (start,) = [decision for decision in decisions if isinstance(decision, Start)]
        if len(trained) >= 2:
            assert start.params["width"] not in trained or set(trained) == set(widths)
        trained.append(start.params["width"])
        decisions = search.ask(told({start.trial_id: 1.0}, 1))
    assert set(trained) == set(widths)


def test_every_procedure_ends_with_the_limits() -> None:
    search = ASHA(numbered(99), max_epochs=9, concurrency=3, limits=Limits(max_total_epochs=10))
    run = Rehearsal(search, lambda name, _: float(name[1:])).run()
    assert sum(run.finished.values()) == 10
    assert (
        "the search is over: limit of 10 epochs; rung 0: waits until it is among the best 1 / 3 there"
        in run.reasons.values()
    )


def test_epochs_that_a_stopped_one_did_not_use_are_free_again() -> None:
    search = Listed([{"a": number} for number in range(3)], epochs=4, concurrency=1, limits=Limits(max_total_epochs=8))
    search.ask()
    search.ask([*told({"c000": 1.0}, 1), Ended("c000", "failed")])
    for epoch in (1, 2, 3):
        search.ask(told({"c001": 1.0}, epoch))
    decisions = search.ask(told({"c001": 1.0}, 4))
    assert [decision.epochs for decision in decisions if isinstance(decision, Start)] == [3]
    for epoch in (1, 2):
        search.ask(told({"c002": 1.0}, epoch))
    assert search.ask(told({"c002": 1.0}, 3)) == [Stop("c002", "limit of 8 epochs")]
    assert search.done


def test_a_listed_search_stops_with_its_last_epoch() -> None:
    search = Listed([{"lr": 0.1}], epochs=2, metric="accuracy", mode="max")
    assert search.ask() == [Start("c000", {"lr": 0.1}, 2)]
    assert search.ask(told({"c000": 0.5}, 1, "accuracy")) == []
    assert search.ask(told({"c000": 0.4}, 2, "accuracy")) == [Stop("c000", "finished its 2 epochs")]
    assert search.done
    assert search.best is not None
    assert search.best.best_epoch == 1


def test_the_sampler_of_a_bracket_is_asked_for_as_many_as_there_are() -> None:
    search = Hyperband(RandomSampler(SPACE, 3), max_epochs=3)
    started = [decision.params for decision in search.ask() if isinstance(decision, Start)]
    assert started == [SPACE.sample(3, number) for number in range(5)]
    few = Hyperband(numbered(2), max_epochs=3)
    assert Rehearsal(few, lambda name, _: float(name[1:])).run().granted.keys() == {"c000", "c001"}
