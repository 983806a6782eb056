"""What every procedure has from the template: results, stoppers, limits, its log, its plan."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from optimizer.errors import InvalidArgumentError
from optimizer.procedures import (
    ASHA,
    PBT,
    Added,
    AgingEvolution,
    Continue,
    DivergedLogError,
    Ended,
    EpochResult,
    Exchange,
    Extended,
    Hyperband,
    Limits,
    Listed,
    ListedSampler,
    LogError,
    MedianRule,
    Origin,
    OutOfTime,
    Patience,
    Pause,
    ProcedureError,
    RandomSampler,
    RandomSearch,
    Replay,
    Sampler,
    Schedule,
    Segment,
    Sequential,
    Source,
    Start,
    Stop,
    Stopped,
    SuccessiveHalving,
    Threshold,
    decision_document,
    read_decision,
    read_result,
    replay,
    result_document,
    schedule_of,
)
from optimizer.space import Space, SpaceError, log_uniform

if TYPE_CHECKING:
    from collections.abc import Callable

    from optimizer.procedures import Decision, Ledger, Procedure, Result, Trial

SPACE = Space({"lr": log_uniform(1e-5, 1e-1)})
DRAWS = RandomSampler(SPACE)
LISTED = ListedSampler([{"lr": 0.1}])


def listed(count: int, epochs: int = 9, **settings: Any) -> Listed:
    search = Listed([{"number": number} for number in range(count)], epochs=epochs, **settings)
    search.ask()
    return search


def epochs(search: Procedure, number: int, *losses: float) -> list[Decision]:
    """Tell epochs of a configuration, one call each; return what was decided in the last."""
    decisions: list[Decision] = []
    for loss in losses:
        trial = search.ledger[f"c{number:03d}"]
        decisions = search.ask([EpochResult(trial.trial_id, trial.finished + 1, {search.metric: loss})])
    return decisions


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Hyperband(DRAWS, max_epochs=0),
            r"max_epochs must be a whole number of at least 1, got 0. It is the number of epochs of the best",
        ),
        (lambda: Hyperband(DRAWS, max_epochs=9, eta=1), r"eta must be a whole number of at least 2, got 1. One of eta"),
        (lambda: Hyperband(DRAWS, max_epochs=9, eta=2.5), r"eta must be a whole number of at least 2, got 2.5"),
        (lambda: Hyperband(DRAWS, max_epochs=True), r"max_epochs must be a whole number .*, got True"),
        (
            lambda: Hyperband(DRAWS, max_epochs=9, brackets="in tern"),
            r"brackets must be .*, got 'in tern'; did you mean 'in turn'",
        ),
        (
            lambda: Hyperband("tpe", max_epochs=9),
            r"sampler must be a Sampler, such as RandomSampler\(space, seed\), got 'tpe'",
        ),
        (
            lambda: SuccessiveHalving(DRAWS, configurations=0, max_epochs=9),
            r"configurations must be a whole number of at least 1, got 0",
        ),
        (
            lambda: SuccessiveHalving(DRAWS, configurations=9, max_epochs=9, min_epochs=10),
            "min_epochs must be at most max_epochs=9, got 10",
        ),
        (lambda: ASHA(DRAWS, max_epochs=9, min_epochs=0), r"min_epochs must be a whole number of at least 1, got 0"),
        (lambda: ASHA(DRAWS, max_epochs=9, eta=1), r"eta must be a whole number of at least 2, got 1"),
        (lambda: ASHA(DRAWS, max_epochs=9, rungs="sums"), r"rungs must be one of milestones, additive, got 'sums'"),
        (
            lambda: ASHA(DRAWS, max_epochs=9, concurrency=-1),
            r"concurrency must be a whole number of at least 1, got -1. None trains",
        ),
        (
            lambda: PBT(SPACE, population=1, epochs=9),
            r"population must be a whole number of at least 2, got 1. The worst",
        ),
        (
            lambda: PBT(SPACE, population=4, epochs=9, quantile=0.6),
            r"quantile must be a number above 0 and at most 0.5, got 0.6",
        ),
        (
            lambda: PBT(SPACE, population=4, epochs=9, quantile=0),
            r"quantile must be a number above 0 and at most 0.5, got 0",
        ),
        (lambda: PBT(SPACE, population=4, epochs=9, resample=1.1), r"resample must be a number from 0 to 1, got 1.1"),
        (
            lambda: PBT(SPACE, population=4, epochs=9, factors=()),
            r"factors must have at least one number, such as \(0\.8, 1\.2\), got none",
        ),
        (lambda: PBT(SPACE, population=4, epochs=9, factors=(0.8, -1)), r"factors must be a number .*, got -1"),
        (lambda: PBT(SPACE, population=4, epochs=9, ready=10), "ready must be at most epochs=9, got 10"),
        (
            lambda: PBT(SPACE, population=4, epochs=9, only="lr"),
            r"only must be a list of names, such as \['lr'\], got 'lr'",
        ),
        (
            lambda: PBT(SPACE, population=4, epochs=9, only=[]),
            "only must have at least one name, got none: None changes all values",
        ),
        (
            lambda: PBT(LISTED, population=4, epochs=9),
            r'space must be a Space, such as Space\(\{"lr": log_uniform\(1e-5, 1e-1\)\}\), got',
        ),
        (lambda: PBT(SPACE, population=4, epochs=9, generations="none"), r"generations must be .*, got 'none'"),
        (lambda: PBT(SPACE, population=4, epochs=9, seed=-1), r"seed must be a whole number of at least 0, got -1"),
        (
            lambda: AgingEvolution(SPACE, population=4, configurations=3, epochs=1),
            "configurations must be at least population=4, the random first ones, got 3",
        ),
        (
            lambda: AgingEvolution(SPACE, population=4, configurations=9, epochs=1, sample=5),
            "sample must be at most population=4, got 5",
        ),
        (
            lambda: AgingEvolution(SPACE, population=1, configurations=9, epochs=1),
            r"population must be a whole number of at least 2, got 1",
        ),
        (lambda: Sequential(LISTED, configurations=2, epochs=0), r"epochs must be a whole number of at least 1, got 0"),
        (
            lambda: Sequential(LISTED, configurations=2, epochs=1, concurrency=0),
            r"concurrency must be a whole number of at least 1, got 0",
        ),
        (
            lambda: Sequential(LISTED, configurations=2.0, epochs=1),
            r"configurations must be a whole number .*, got 2.0",
        ),
        (
            lambda: RandomSearch({"lr": [1]}, configurations=2, epochs=1),
            r'space must be a Space, such as Space\(\{"lr": log_uniform\(1e-5, 1e-1\)\}\), got',
        ),
        (
            lambda: RandomSampler({"lr": [1]}),
            r'space must be a Space, such as Space\(\{"lr": log_uniform\(1e-5, 1e-1\)\}\), got',
        ),
        (lambda: Listed([], epochs=1), "configurations must have at least one configuration, got none"),
        (
            lambda: Listed([{"lr": {1, 2}}], epochs=1),
            "a configuration must be plain data of strings, finite numbers, lists, tuples and mappings,",
        ),
        (
            lambda: Listed([{"lr": math.nan}], epochs=1),
            "a configuration must be plain data of strings, finite numbers, lists, tuples and mappings,",
        ),
        (lambda: Listed([{1: 2}], epochs=1), r"names of a configuration must be strings, got \{1: 2\}"),
        (lambda: Listed(["lr"], epochs=1), "a configuration must be a mapping of names to values, got 'lr'"),
        (lambda: Listed([{"lr": 1}], epochs=1, metric=""), "metric must be a name or a sequence of names, got ''"),
        (lambda: Listed([{"lr": 1}], epochs=1, mode="up"), r"mode must be one of min, max, got 'up'"),
        (lambda: Listed([{"lr": 1}], epochs=1, mode="maxx"), r"mode must be .*, got 'maxx'; did you mean 'max'"),
        (
            lambda: Listed([{"lr": 1}], epochs=1, stoppers=[3]),
            r"stoppers must be rules with a method reason, such as Patience\(3\), got 3",
        ),
        (
            lambda: Listed([{"lr": 1}], epochs=1, limits=9),
            r"limits must be Limits\(max_configurations=\.\.\., max_total_epochs=\.\.\.\), got 9",
        ),
        (
            lambda: Limits(max_configurations=0),
            r"max_configurations must be a whole number of at least 1, got 0. None is no limit",
        ),
        (lambda: Limits(max_total_epochs=2.5), r"max_total_epochs must be a whole number .*, got 2.5"),
        (lambda: Patience(0), r"epochs must be a whole number of at least 1, got 0"),
        (lambda: Patience(3, min_delta=-0.1), r"min_delta must be a number of at least 0, got -0.1"),
        (Threshold, "reach or floor must be a number, got None for both"),
        (lambda: Threshold(reach=math.nan), r"reach must be a finite number, got nan"),
        (lambda: Threshold(floor=1, after=0), r"after must be a whole number of at least 1, got 0"),
        (lambda: MedianRule(warm_up=-1), r"warm_up must be a whole number of at least 0, got -1"),
        (lambda: MedianRule(min_trials=0), r"min_trials must be a whole number of at least 1, got 0"),
        (lambda: Replay(Schedule(())), "segments must have at least one segment, got none"),
        (lambda: Replay([{"lr": 1}]), r"schedule must be a Schedule, as schedule_of\(ledger, trial_id\) returns, got"),
        (lambda: Schedule((Segment({"lr": 1}, 0),)), r"epochs must be a whole number of at least 1, got 0"),
        (lambda: listed(1).ask(idle=-1), r"idle must be a whole number of at least 0, got -1"),
        (lambda: listed(1).plan().seconds(0, workers=1), r"unit_seconds must be a number .*, got 0"),
        (lambda: listed(1).plan().seconds(1, workers=0), r"workers must be a whole number of at least 1, got 0"),
        (lambda: listed(1).plan().units(0), r"partitions must be a whole number of at least 1, got 0"),
        (lambda: listed(1).plan().front(1, partitions=2, price=-1), r"price must be a number of at least 0, got -1"),
        (
            lambda: listed(1).plan().front(1, partitions=2, price=1, workers=3),
            r"workers must be a sequence of numbers, such as \(1, 2, 4\), got 3",
        ),
    ],
)
def test_a_bad_value_is_refused_where_it_is_given(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make()


def test_a_wrong_name_of_pbt_is_told_before_anything_starts() -> None:
    with pytest.raises(SpaceError, match=r"only must be names of dimensions, .*got 'lrr'; did you mean 'lr'"):
        PBT(SPACE, population=4, epochs=9, only=["lrr"])


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (
            EpochResult("c001", 1, {"loss": 1.0}),
            "trial_id must be the id of a trial, such as the last ones c000, got 'c001';",
        ),
        (Ended("d7", "failed"), "trial_id must be the id of a trial, such as the last ones c000, got 'd7'"),
        (EpochResult("c000", 2, {"loss": 1.0}), "epoch of c000 must be 1, its next one, got 2: report each once"),
        (EpochResult("c000", 0, {"loss": 1.0}), "epoch of c000 must be 1, its next one, got 0: report each once"),
        (
            EpochResult("c000", 1, {"losss": 1.0, "f1": 0.2}),
            r"metrics of c000 must include 'loss', got f1, losss; did you mean 'losss'\?",
        ),
        (EpochResult("c000", 1, {}), "metrics of c000 must include 'loss', got none"),
        (EpochResult("c000", 1, {"loss": "low"}), "loss of c000 must be a number, got 'low'"),  # type: ignore[dict-item]
        (EpochResult("c000", 1, {"loss": True}), "loss of c000 must be a number, got True"),
        (Ended("c000", ""), "status of c000 must be a final status, got ''"),
        (Ended("c000", "paused"), "status of c000 must be a final status, got 'paused'"),
    ],
)
def test_a_result_that_cannot_be_changes_nothing(result: Result, message: str) -> None:
    search = listed(1, epochs=1)
    with pytest.raises(ProcedureError, match=message):
        search.ask([result])
    assert search.ledger["c000"].finished == 0
    assert epochs(search, 0, 1.0) == [Stop("c000", "finished its 1 epochs")]


def test_of_results_with_one_that_cannot_be_none_is_taken_in() -> None:
    search = listed(2)
    good = EpochResult("c000", 1, {"loss": 1.0})
    with pytest.raises(ProcedureError, match="epoch of c001 must be 1, its next one, got 7: report each once"):
        search.ask([good, EpochResult("c001", 7, {"loss": 1.0})])
    with pytest.raises(ProcedureError, match="epoch of c000 must be 2, its next one, got 1: report each once"):
        search.ask([good, good])
    search.ask([good])
    assert search.ledger["c000"].finished == 1


def test_epochs_beyond_those_granted_are_refused() -> None:
    search = SuccessiveHalving(DRAWS, configurations=3, max_epochs=3)
    search.ask()
    epochs(search, 0, 1.0)
    with pytest.raises(ProcedureError, match="epoch of c000 must be at most 1, as granted, got 2"):
        epochs(search, 0, 1.0)


def test_numbers_of_numpy_are_numbers() -> None:
    search = listed(1)
    assert search.ask([EpochResult("c000", 1, {"loss": np.float32(0.5)})]) == []
    assert search.ledger["c000"].scores == [-0.5]


@pytest.mark.parametrize(("wrong", "shown"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")])
@pytest.mark.parametrize("mode", ["min", "max"])
def test_what_is_no_finite_number_is_the_worst_in_both_modes(mode: str, wrong: float, shown: str) -> None:
    search = listed(3, mode=mode)
    assert epochs(search, 0, wrong) == [Stop("c000", f"diverged: loss is {shown}")]
    epochs(search, 1, 1e300 if mode == "min" else -1e300)
    assert search.ledger.ranked(search.ledger)[0].trial_id == "c001"
    assert search.best is search.ledger["c001"]


def test_ties_go_to_the_one_that_was_started_first() -> None:
    search = listed(1100, epochs=1)
    search.ask([EpochResult(f"c{number:03d}", 1, {"loss": 1.0}) for number in (1002, 999, 5)])
    backwards = reversed(list(search.ledger))
    ranked = [trial.trial_id for trial in search.ledger.ranked(backwards) if trial.finished]
    assert ranked == ["c005", "c999", "c1002"]
    assert search.best is search.ledger["c005"]


def test_the_best_is_that_of_all_that_were_measured() -> None:
    search = listed(3, epochs=4)
    epochs(search, 0, 3.0, 0.5, 2.0, 2.0)
    epochs(search, 1, 1.0)
    search.ask([Ended("c001", "stopped by the user")])
    epochs(search, 2, 0.1)
    search.ask([Ended("c002", "failed")])
    assert search.best is search.ledger["c000"]
    assert search.best.best_epoch == 2


def test_patience_counts_epochs_without_a_better_value() -> None:
    search = listed(2, stoppers=[Patience(2, min_delta=0.1)])
    assert epochs(search, 0, 1.0, 0.8, 0.75, 0.6, 0.55) == []
    assert epochs(search, 0, 0.51) == [Stop("c000", "patience: no better loss than 0.6 for 2 epochs")]
    assert epochs(search, 1, 1.0, 1.0) == []


def test_patience_where_larger_is_better() -> None:
    search = listed(1, metric="accuracy", mode="max", stoppers=[Patience(1)])
    assert epochs(search, 0, 0.5, 0.6) == []
    assert epochs(search, 0, 0.6) == [Stop("c000", "patience: no better accuracy than 0.6 for 1 epochs")]


@pytest.mark.parametrize(("mode", "good", "bad"), [("min", 0.1, 0.9), ("max", 0.9, 0.1)])
def test_thresholds(mode: str, good: float, bad: float) -> None:
    search = listed(3, mode=mode, stoppers=[Threshold(reach=good, floor=0.5, after=2)])
    assert epochs(search, 0, good) == [Stop("c000", f"threshold: loss has reached {good:g}")]
    assert epochs(search, 1, bad) == []
    assert epochs(search, 1, bad) == [Stop("c001", "threshold: loss is worse than 0.5 after 2 epochs")]
    assert epochs(search, 2, bad, 0.5, 0.5) == []


def test_the_median_rule_compares_the_best_so_far_with_running_means() -> None:
    """The rule compares all trials that have reached the epoch: running trials and ended ones."""
    search = listed(6, stoppers=[MedianRule(warm_up=1, min_trials=3)])
    epochs(search, 0, 4.0, 2.0)  # 3 on average
    epochs(search, 1, 2.0, 0.0)  # 1
    epochs(search, 2, 6.0, 4.0)  # 5
    search.ask([Ended("c002", "stopped by the user")])
    epochs(search, 3, 100.0)  # has not reached epoch 2
    # The last value is above the median, which is 3; the best one is not.
    assert epochs(search, 4, 2.9, 9.0) == []
    # 5.95 has joined the others: the median of 1, 3, 5 and 5.95 is 4.
    reason = "median rule: best loss 4.5 is worse than 4, the median of 4 others at epoch 2"
    assert epochs(search, 5, 8.0) == []
    assert epochs(search, 5, 4.5) == [Stop("c005", reason)]


def test_the_median_rule_waits_for_enough_others_and_for_the_warm_up() -> None:
    search = listed(5, stoppers=[MedianRule(warm_up=2, min_trials=3)])
    for number in range(3):
        epochs(search, number, 1.0, 1.0, 1.0)
    assert epochs(search, 3, 9.0, 9.0) == []
    assert isinstance(epochs(search, 3, 9.0)[0], Stop)
    few = listed(3, stoppers=[MedianRule(warm_up=0, min_trials=3)])
    epochs(few, 0, 1.0)
    epochs(few, 1, 1.0)
    assert epochs(few, 2, 9.0) == []


def test_the_first_stopper_that_has_a_reason_gives_it() -> None:
    search = listed(1, stoppers=[Patience(5), Threshold(reach=0.5), Patience(1)])
    assert epochs(search, 0, 0.4) == [Stop("c000", "threshold: loss has reached 0.5")]


def test_a_stopped_member_of_a_rung_is_not_promoted_and_blocks_nobody() -> None:
    search = SuccessiveHalving(DRAWS, configurations=3, max_epochs=3, stoppers=[Threshold(reach=0.1)])
    search.ask()
    epochs(search, 0, 0.05)
    epochs(search, 1, 0.3)
    decisions = epochs(search, 2, 0.2)
    assert [decision.trial_id for decision in decisions if isinstance(decision, Continue)] == ["c002"]


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("kind", ["halving", "hyperband", "asha"])
def test_a_rung_does_not_wait_for_a_configuration_that_a_user_stops(kind: str, waits: bool) -> None:
    """It makes no difference if the configuration still trains or waits; the reasons name rung, place and rule."""
    search: Procedure = {
        "halving": lambda: SuccessiveHalving(DRAWS, configurations=3, max_epochs=3),
        "hyperband": lambda: Hyperband(DRAWS, max_epochs=3, brackets="in turn"),
        "asha": lambda: ASHA(DRAWS, max_epochs=3, concurrency=3, limits=Limits(max_configurations=3)),
    }[kind]()
    search.ask()
    epochs(search, 0, 0.2)
    epochs(search, 1, 0.3)
    decisions = search.ask([Stopped("c000" if waits else "c002", "stopped by ada")])
    if waits:
        decisions += epochs(search, 2, 0.4)
    reasons = {each.trial_id: each.reason for each in decisions if isinstance(each, Continue | Stop)}
    stopped, best = ("c000", "c001") if waits else ("c002", "c000")
    assert reasons[stopped] == "stopped by ada"
    assert reasons[best].endswith("rung 0: place 1 of 3, promoted")
    assert not [trial for trial in search.ledger if trial.waiting]


def test_when_time_is_over_all_stop() -> None:
    search = SuccessiveHalving(DRAWS, configurations=3, max_epochs=3)
    search.ask()
    epochs(search, 0, 1.0)
    assert search.ask([EpochResult("c001", 1, {"loss": 0.5}), OutOfTime()]) == [
        Stop("c000", "time is over; rung 0: waits for 2 others"),
        Stop("c001", "time is over"),
        Stop("c002", "time is over"),
    ]
    assert search.done
    assert search.best is search.ledger["c001"]


class Recorder(Sampler):
    def __init__(self) -> None:
        self.heard: list[tuple[str, int, str]] = []

    def suggest(self, number: int, ledger: Ledger) -> dict[str, Any]:
        assert len(ledger) == number
        return {"number": number}

    def hear(self, trial: Trial) -> None:
        self.heard.append((trial.trial_id, trial.finished, trial.status))


def test_a_sampler_hears_of_every_epoch_and_end_in_the_order_of_the_log() -> None:
    """Before it suggests the next one; the ends that the procedure decides included."""
    sampler = Recorder()
    search = Sequential(sampler, configurations=4, epochs=2, concurrency=2)
    search.ask()
    epochs(search, 1, 0.5, 0.25)
    assert sampler.heard == [("c001", 1, "running"), ("c001", 2, "running"), ("c001", 2, "stopped")]
    del sampler.heard[:]
    search.ask([EpochResult("c002", 1, {"loss": math.nan}), Ended("c000", "failed")])
    assert sampler.heard == [("c000", 0, "failed"), ("c002", 1, "running"), ("c002", 1, "diverged")]


def test_params_are_copies_that_nobody_changes() -> None:
    params: dict[str, Any] = {"layers": [1, 2]}
    search = Listed([params], epochs=1)
    (start,) = search.ask()
    assert isinstance(start, Start)
    params["layers"].append(3)
    assert start.params == {"layers": [1, 2]}


DECISIONS: list[Decision] = [
    Start("c000", {"lr": 0.1, "net": {"width": [1, 2]}}, 3, Source("c009", 4), "clone"),
    Start("c001", {}, 1),
    Continue("c000", 2, "promoted"),
    Pause("c000", "waits"),
    Stop("c000", "done"),
]
ORIGIN = Origin("f3a0", "ada", "2026-11-29T21:00:00+00:00")
RESULTS: list[Result] = [
    EpochResult("c000", 1, {"loss": 0.1, "accuracy": -math.inf}),
    Ended("c000", "failed"),
    OutOfTime("the money is spent"),
    Added({"lr": 0.1}, 2, Source("c009", 4)),
    Added({"lr": 0.1}, 2, Source("c009", 4), ORIGIN),
    Stopped("c000", "stopped by ada", ORIGIN),
    Extended("c000", 2, ORIGIN),
    OutOfTime("ended by ada", ORIGIN),
]


def test_documents_are_json_and_read_back() -> None:
    for decision in DECISIONS:
        assert read_decision(json.loads(json.dumps(decision_document(decision), allow_nan=False))) == decision
    for result in RESULTS:
        assert read_result(json.loads(json.dumps(result_document(result), allow_nan=False))) == result
    nan = read_result(result_document(EpochResult("c000", 1, {"loss": math.nan})))
    assert isinstance(nan, EpochResult)
    assert math.isnan(nan.metrics["loss"])


def test_requests_without_a_command_have_the_documents_of_earlier_releases() -> None:
    documents = [
        {"result": "added", "params": {"lr": 0.1}, "epochs": 2, "source": None},
        {"result": "stopped", "trial": "c000", "reason": "stopped by the user"},
        {"result": "out of time", "reason": "time is over"},
    ]
    requests: list[Result] = [Added({"lr": 0.1}, 2), Stopped("c000"), OutOfTime()]
    assert [read_result(document) for document in documents] == requests
    assert [result_document(request) for request in requests] == documents


def changed(document: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {name: value for name, value in {**document, **fields}.items() if value is not ...}


STARTED = decision_document(DECISIONS[0])
MEASURED = result_document(RESULTS[0])
EXTENDED = result_document(Extended("c000", 2, ORIGIN))
STOPPED = result_document(Stopped("c000", "stopped by ada", ORIGIN))


@pytest.mark.parametrize(
    ("read", "document", "message"),
    [
        (read_decision, None, "document of a decision must be a mapping, got None"),
        (read_decision, {}, r"decision must be one of start, continue, pause, stop, got None in \{\}"),
        (
            read_decision,
            changed(STARTED, decision="begin"),
            "decision must be one of start, continue, pause, stop, got 'begin' in",
        ),
        (
            read_decision,
            changed(STARTED, decision=["start"]),
            r"decision must be one of start, continue, pause, stop, got \['start'\] in",
        ),
        (
            read_decision,
            changed(STARTED, epochs="3"),
            r"epochs must be of type int, got '3' in \{'decision': 'start', 'trial': 'c000',",
        ),
        (
            read_decision,
            changed(STARTED, epochs=True),
            r"epochs must be of type int, got True in \{'decision': 'start', 'trial':",
        ),
        (
            read_decision,
            changed(STARTED, epochs=0),
            r"epochs must be at least 1, got 0 in \{'decision': 'start', 'trial': 'c000',",
        ),
        (read_decision, changed(STARTED, reason=...), "see reason"),
        (read_decision, changed(STARTED, colour="red"), "see colour"),
        (
            read_decision,
            changed(STARTED, source="c009"),
            r"source must be a trial and an epoch, or null, got 'c009' in \{'decision':",
        ),
        (read_decision, changed(STARTED, source={"trial": "c009"}), "see epoch"),
        (
            read_result,
            changed(MEASURED, result="end"),
            "result must be one of epoch, ended, out of time, added, stopped, extended, got 'end' in",
        ),
        (
            read_result,
            changed(STOPPED, origin="f3a0"),
            r"origin must be a command, a user and a time, got 'f3a0' in \{'result': 'stopped',",
        ),
        (read_result, changed(STOPPED, origin={"command": "f3a0", "user": "ada"}), "see at"),
        (read_result, changed(MEASURED, origin=STOPPED["origin"]), "see origin"),
        (read_result, changed(EXTENDED, epochs=0), "epochs must be at least 1, got 0"),
        (
            read_result,
            changed(MEASURED, metrics={"loss": "low"}),
            r"metrics\['loss'\] must be a number or one of nan, inf, -inf, got 'low' in",
        ),
        (
            read_result,
            changed(MEASURED, metrics={"loss": None}),
            r"metrics\['loss'\] must be a number or one of nan, inf, -inf, got None in",
        ),
        (
            read_result,
            changed(MEASURED, epoch=1.5),
            r"epoch must be of type int, got 1\.5 in \{'result': 'epoch', 'trial': 'c000',",
        ),
        (Exchange.of, [], r"exchange must be a mapping of results, idle and decisions, got \[\]"),
        (Exchange.of, {"results": [], "idle": -1, "decisions": []}, "idle must be a number of slots, got -1"),
        (Exchange.of, {"results": {}, "idle": 0, "decisions": []}, r"results must be a list, got \{\}"),
        (Schedule.of, {}, r"schedule must be a list of segments, got \{\}"),
        (Schedule.of, [{"params": {}}], r"segment of a schedule must have params and epochs, got \{'params': \{\}\}"),
        (Schedule.of, [{"params": {}, "epochs": 0}], r"epochs must be .*, got 0"),
    ],
)
def test_a_document_is_read_strictly(read: Callable[[Any], object], document: Any, message: str) -> None:
    with pytest.raises(LogError, match=message):
        read(document)


def test_a_replay_accepts_reasons_of_another_version() -> None:
    told = Exchange.with_procedure(RandomSearch(SPACE, configurations=2, epochs=1), [])
    worded = replace(told, decisions=tuple(replace(each, reason="drawn") for each in told.decisions))
    replay(RandomSearch(SPACE, configurations=2, epochs=1), [worded])


def test_a_replay_names_the_first_decision_that_differs() -> None:
    log = [Exchange.with_procedure(RandomSearch(SPACE, configurations=3, epochs=1), [])]
    with pytest.raises(DivergedLogError, match=r"decision 0 of call 0 differs: the log has Start.*decides Start"):
        replay(RandomSearch(SPACE, configurations=3, epochs=1, seed=1), log)
    with pytest.raises(DivergedLogError, match=r"decision 2 of call 0 differs.*decides none"):
        replay(RandomSearch(SPACE, configurations=2, epochs=1), log)
    with pytest.raises(DivergedLogError, match=r"decision 3 of call 0 differs: the log has none"):
        replay(RandomSearch(SPACE, configurations=4, epochs=1), log)
    with pytest.raises(
        DivergedLogError, match="call 1 of the log fails with this procedure: epoch of c000 must be 1, its"
    ):
        replay(
            RandomSearch(SPACE, configurations=3, epochs=1),
            [*log, Exchange((EpochResult("c000", 2, {"loss": 1.0}),), 0, ())],
        )


def test_a_schedule_of_what_was_not_trained_is_refused() -> None:
    search = listed(1)
    with pytest.raises(ProcedureError, match="epoch must be from 1 to 0, the finished epochs of c000, got 0"):
        schedule_of(search.ledger, "c000")
    epochs(search, 0, 1.0)
    with pytest.raises(ProcedureError, match="epoch must be from 1 to 1, the finished epochs of c000, got 2"):
        schedule_of(search.ledger, "c000", 2)


def test_a_clone_of_what_was_not_trained_is_refused() -> None:
    search = listed(1)
    with pytest.raises(ProcedureError, match="source must be a finished epoch of c000, 1 to 0, got epoch 1"):
        search.start({"lr": 1}, 1, source=Source("c000", 1))


def test_a_plan_counts_units_and_bounds_seconds() -> None:
    """Two configurations at a time, 6 in all, 4 epochs each, over 3 partitions of 2 s."""
    plan = RandomSearch(SPACE, configurations=6, epochs=4, concurrency=2).plan()
    assert plan.epochs == 24
    assert plan.units(3) == 72
    assert plan.seconds(2, workers=3) == 72
    assert plan.seconds(2, workers=1, partitions=3) == 144
    one = Listed([{"lr": 1}], epochs=5).plan()
    assert one.seconds(1.0, workers=4) == 20
    assert one.seconds(1.0, workers=9, partitions=4) == 20
    assert "at most 2 at the same time" in plan.explain()


def test_a_plan_with_a_limit_of_epochs_says_so() -> None:
    plan = Hyperband(DRAWS, max_epochs=25, limits=Limits(max_configurations=9, max_total_epochs=100)).plan()
    assert plan.epochs == 100
    assert str(plan).splitlines()[-2:] == ["  ends with 9 configurations", "  ends with 100 epochs"]


def test_a_search_without_an_end_has_a_plan_without_seconds() -> None:
    plan = ASHA(DRAWS, max_epochs=9).plan()
    assert (plan.epochs, plan.units(2), plan.seconds(1.0, workers=2)) == (None, None, None)
    assert plan.front(1.0, partitions=4, price=2.0) == ()
    assert "rungs at epochs 1 -> 3 -> 9; goes on until time is over" in str(plan)
    assert ASHA(DRAWS, max_epochs=9, limits=Limits(max_total_epochs=60)).plan().seconds(1.0, workers=2) == 60


def test_the_front_has_no_offer_that_another_one_beats() -> None:
    """Two configurations of 3 epochs over 4 partitions: more than two workers are no faster."""
    plan = Listed([{"a": 1}, {"a": 2}], epochs=3).plan()
    offers = plan.front(3600.0, partitions=4, price=0.5)
    assert [(offer.workers, offer.seconds, offer.cost) for offer in offers] == [(2, 43200.0, 12.0)]
    waste = plan.front(3600.0, partitions=4, price=0.5, workers=(1, 3))
    assert [(offer.workers, offer.cost) for offer in waste] == [(1, 12.0), (3, 18.0)]
    assert str(waste[0]) == "1 worker: 86400 s, 12"
