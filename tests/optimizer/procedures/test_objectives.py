"""Several objectives: fronts and orders against their definitions, and what procedures and studies make of them."""

from __future__ import annotations

import math
from typing import Any

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.procedures.simulation import simulate
from optimizer.errors import InvalidArgumentError
from optimizer.procedures import (
    ASHA,
    Continue,
    EpochResult,
    Limits,
    Listed,
    ListedSampler,
    Patience,
    Pause,
    ProcedureError,
    Sequential,
    Stop,
    SuccessiveHalving,
    best_first,
    front,
    objectives_of,
)
from optimizer.procedures.studies import OptunaPruner, OptunaSampler, study_of
from optimizer.space import Space, uniform

TWO: dict[str, Any] = {"metric": ["accuracy", "bytes"], "mode": ["max", "min"]}
PLANE = Space({"x": uniform(0, 1), "y": uniform(0, 1)})

# Few values, so that points tie and repeat.
VALUES = st.sampled_from([0.0, 1.0, 2.0, -1e308, 1e308, math.inf, -math.inf, math.nan])
POINTS = st.integers(1, 3).flatmap(lambda count: st.lists(st.tuples(*[VALUES] * count), max_size=9))


def dominates(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(a >= b for a, b in zip(one, other, strict=True)) and any(a > b for a, b in zip(one, other, strict=True))


@given(POINTS)
def test_the_front_is_its_definition(points: list[tuple[float, ...]]) -> None:
    known = [place for place, point in enumerate(points) if not any(map(math.isnan, point))]
    assert front(points) == [
        place for place in known if not any(dominates(points[other], points[place]) for other in known)
    ]


@given(POINTS)
def test_nobody_comes_before_one_that_is_better(points: list[tuple[float, ...]]) -> None:
    order = best_first(points)
    assert sorted(order) == list(range(len(points)))
    finite = [place for place in order if all(map(math.isfinite, points[place]))]
    assert order[: len(finite)] == finite
    for place, later in enumerate(finite):
        assert not any(dominates(points[later], points[earlier]) for earlier in finite[:place])
    fronts: list[list[int]] = []
    left = sorted(finite)
    while left:
        fronts.append([left[place] for place in front([points[each] for each in left])])
        left = [place for place in left if place not in fronts[-1]]
    assert [set(each) for each in fronts] == [
        set(finite[sum(map(len, fronts[:number])) : sum(map(len, fronts[: number + 1]))])
        for number in range(len(fronts))
    ]


@given(st.lists(st.floats(-9, 9), max_size=9))
def test_with_one_objective_it_is_the_order_of_the_scores(scores: list[float]) -> None:
    assert best_first([(score,) for score in scores]) == sorted(range(len(scores)), key=lambda place: -scores[place])


def test_the_least_crowded_of_a_front_come_first() -> None:
    """By hand: the ends first; of the others 5 has (6 - 4.5) / 8 twice, 4.5 has (5 - 1) / 8 twice."""
    line = [(value, 9 - value) for value in (5.0, 1.0, 4.5, 9.0, 6.0)]
    assert best_first(line) == [1, 3, 2, 4, 0]
    assert best_first([(1.0, 1.0)] * 3) == [0, 1, 2]


def told(search: Any, values: dict[str, tuple[float, float]], epoch: int = 1) -> list[Any]:
    return search.ask([EpochResult(name, epoch, {"accuracy": a, "bytes": b}) for name, (a, b) in values.items()])


def test_halving_promotes_by_fronts() -> None:
    """The second best in accuracy is dominated; the worst in accuracy is the smallest, and goes on."""
    search = SuccessiveHalving(
        ListedSampler({"n": number} for number in range(4)), configurations=4, max_epochs=2, eta=2, **TWO
    )
    search.ask()
    decisions = told(search, {"c000": (0.9, 5), "c001": (0.8, 6), "c002": (0.1, 1), "c003": (0.7, 7)})
    assert {each.trial_id for each in decisions if isinstance(each, Continue)} == {"c000", "c002"}
    assert search.best is search.ledger["c000"]


def test_asha_promotes_by_fronts_and_forgets_who_was_stopped() -> None:
    search = ASHA(
        ListedSampler({"n": number} for number in range(9)),
        max_epochs=2,
        eta=2,
        concurrency=4,
        limits=Limits(max_configurations=4),
        **TWO,
    )
    search.ask()
    promoted = [
        each.trial_id
        for name, point in {"c000": (0.9, 5.0), "c001": (0.8, 6.0), "c002": (0.1, 1.0), "c003": (0.7, 7.0)}.items()
        for each in told(search, {name: point})
        if isinstance(each, Continue)
    ]
    assert promoted == ["c000", "c002"]


def test_no_number_in_one_objective_is_the_worst_in_all() -> None:
    search = Listed([{"n": 1}, {"n": 2}], epochs=2, **TWO)
    search.ask()
    (stopped,) = told(search, {"c000": (0.9, math.nan), "c001": (0.1, 5.0)})
    assert stopped == Stop("c000", "diverged: bytes is nan")
    assert search.best is search.ledger["c001"]
    with pytest.raises(ProcedureError, match="metrics of c001 must include 'bytes', got accuracy"):
        search.ask([EpochResult("c001", 2, {"accuracy": 1.0})])


def test_stoppers_look_at_the_first_objective() -> None:
    search = Listed([{"n": 1}], epochs=9, stoppers=[Patience(1)], **TWO)
    search.ask()
    assert told(search, {"c000": (0.5, 5.0)}) == []
    (stopped,) = told(search, {"c000": (0.5, 1.0)}, 2)
    assert stopped.reason == "patience: no better accuracy than 0.5 for 1 epochs"


@pytest.mark.parametrize(
    ("metric", "mode", "message"),
    [
        ([], [], r"metric must be a name or a sequence of names, got \[\]"),
        (["a", ""], ["min", "min"], r"metric must be a name or a sequence of names, got \['a', ''\]"),
        (["a", "b", "a"], ["min"] * 3, r"metric must name each objective once, got 'a' twice in \['a', 'b', 'a'\]"),
        (["a", "b"], "min", r"mode must have one direction for each of the 2 metrics of \['a', 'b'\], got"),
        (["a"], ["min", "max"], r"mode must have one direction for each of the 1 metrics of \['a'\], got \['min',"),
        (["a", "b"], ["min", "up"], r"mode must be one of min, max, got 'up'"),
    ],
)
def test_objectives_that_cannot_be_are_refused(metric: list[str], mode: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        objectives_of(metric, mode)


def test_pruners_of_optuna_are_refused() -> None:
    rule = OptunaPruner(optuna.pruners.MedianPruner())
    with pytest.raises(InvalidArgumentError, match="stoppers must support 2 objectives, got"):
        Listed([{"n": 1}], epochs=1, stoppers=[rule], **TWO)


def values(trial: Any, epoch: int) -> dict[str, float]:
    x, y = trial.params["x"], trial.params["y"]
    return {"accuracy": x * epoch / 2, "bytes": x * x + y}


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("name", ["tpe", "nsgaii", "NSGAIIISampler"])
def test_a_sampler_hears_all_objectives_and_a_study_goes_in_and_out(name: str) -> None:
    sampler = getattr(optuna.samplers, name)(seed=0) if name.endswith("Sampler") else name
    search = Sequential(OptunaSampler(PLANE, sampler), configurations=20, epochs=2, concurrency=4, **TWO)
    assert "come to the end" in str(search.plan())
    course = simulate(search, values, 1.0, 2)
    heard: Any = search.sampler
    for theirs in heard._follower.study.get_trials(states=(optuna.trial.TrialState.COMPLETE,)):
        assert theirs.values == [theirs.params["x"], theirs.params["x"] ** 2 + theirs.params["y"]]
    study = study_of(PLANE, course.ledger)
    assert [each.name for each in study.directions] == ["MAXIMIZE", "MINIMIZE"]
    points = [(trial.points[-1]) for trial in course.ledger]
    assert {trial.number for trial in study.best_trials} == set(front(points))
    knows = OptunaSampler(PLANE, sampler, study=study)
    told_of = Sequential(knows, configurations=2, epochs=1, concurrency=1, **TWO)
    assert "knows 20 trials" in str(told_of.plan())
    assert told_of.ask()
    turned = Sequential(
        OptunaSampler(PLANE, sampler, study=study), configurations=2, epochs=1, **TWO | {"mode": ["max"] * 2}
    )
    with pytest.raises(
        InvalidArgumentError, match="direction of the study must be maximize, as for bytes, got minimize"
    ):
        turned.ask()


def test_rungs_tell_a_learning_sampler_of_no_values() -> None:
    """Optuna has none for a pruned trial of several objectives; the log of two such searches is the same."""
    logs = []
    for _ in range(2):
        sampler = OptunaSampler(PLANE, "tpe", seed=3)
        search = ASHA(sampler, max_epochs=4, eta=2, concurrency=3, limits=Limits(max_configurations=16), **TWO)
        logs.append(simulate(search, values, 1.0, 3).log)
        study: Any = sampler._follower and sampler._follower.study
        pruned = study.get_trials(states=(optuna.trial.TrialState.PRUNED,))
        assert pruned
        assert not any(trial.intermediate_values for trial in pruned)
    assert logs[0] == logs[1]
    assert any(isinstance(decision, Pause) for exchange in logs[0] for decision in exchange.decisions)
