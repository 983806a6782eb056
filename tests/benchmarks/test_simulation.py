"""The simulation: what hopping, barriers and task parallelism take, by hand and by its invariants."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.procedures.simulation import simulate
from optimizer.errors import InvalidArgumentError
from optimizer.procedures import (
    ASHA,
    PBT,
    EpochResult,
    Hyperband,
    Limits,
    Listed,
    Procedure,
    ProcedureError,
    RandomSampler,
    RandomSearch,
    SuccessiveHalving,
    replay,
)
from optimizer.space import Space, choice, log_uniform

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.procedures._course import Simulation
    from optimizer.procedures import Trial

SPACE = Space({"lr": log_uniform(1e-5, 1e-1), "layers": choice([1, 2, 4])})


def loss(trial: Trial, epoch: int) -> float:
    return (trial.number * 7919 % 101) / 101 + 1 / (len(trial.curve) + epoch)


def unit(trial: Trial) -> float:
    return float(trial.params["layers"])


def make(name: str) -> Procedure:
    draws = RandomSampler(SPACE, 1)
    made: dict[str, Procedure] = {
        "random": RandomSearch(SPACE, configurations=7, epochs=3, concurrency=3),
        "halving": SuccessiveHalving(draws, configurations=9, max_epochs=9),
        "hyperband": Hyperband(draws, max_epochs=9),
        "in turn": Hyperband(draws, max_epochs=9, brackets="in turn"),
        "asha": ASHA(draws, max_epochs=9, limits=Limits(max_configurations=20)),
        "pbt": PBT(SPACE, population=5, epochs=4),
        "rolling pbt": PBT(SPACE, population=5, epochs=4, generations="rolling"),
    }
    return made[name]


NAMES = ["random", "halving", "hyperband", "in turn", "asha", "pbt", "rolling pbt"]
WAYS: list[dict[str, Any]] = [{}, {"rounds": "together"}, {"parallelism": "tasks"}]


def disjoint(spans: Sequence[tuple[float, float]]) -> bool:
    return all(before[1] <= after[0] for before, after in pairwise(sorted(spans)))


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("workers", "partitions"), [(3, 3), (2, 5)])
def test_a_simulation_holds_what_the_hopper_holds(
    name: str, way: dict[str, Any], workers: int, partitions: int
) -> None:
    """Each epoch once over every partition, a configuration and a worker one unit at a time, epochs in order."""
    course = simulate(make(name), loss, unit, workers, partitions=partitions, **way)
    for worker in range(workers):
        assert disjoint([(visit.start, visit.end) for visit in course.visits if visit.worker == worker])
    for trial in course.ledger:
        visits = sorted((visit.start, visit.end, visit) for visit in course.visits if visit.trial_id == trial.trial_id)
        assert disjoint([(start, end) for start, end, _ in visits])
        order = [visit.epoch for _, _, visit in visits]
        assert order == sorted(order)
        for epoch in range(1, trial.finished + 1):
            of_epoch = [visit for _, _, visit in visits if visit.epoch == epoch]
            if "parallelism" in way:
                assert [visit.partition for visit in of_epoch] == [None]
                assert of_epoch[0].end - of_epoch[0].start == unit(trial) * partitions
            else:
                assert sorted(visit.partition for visit in of_epoch if visit.partition is not None) == list(
                    range(partitions)
                )
                assert all((visit.partition or 0) % workers == visit.worker for visit in of_epoch)
    assert course.ledger.epochs == sum(trial.finished for trial in course.ledger)
    assert 0 <= course.idle < 1
    assert course.makespan == max(visit.end for visit in course.visits)
    replay(make(name), course.log)


@pytest.mark.parametrize("name", NAMES)
def test_a_simulation_is_the_same_each_time(name: str) -> None:
    first, second = (simulate(make(name), loss, unit, 3) for _ in range(2))
    assert first.visits == second.visits
    assert first.log == second.log
    assert first.spans == second.spans


@pytest.mark.parametrize("name", ["random", "halving", "hyperband", "pbt"])
def test_what_does_not_depend_on_time_is_the_same_however_it_is_scheduled(name: str) -> None:
    def outcome(**way: Any) -> list[tuple[str, int, str]]:
        course = simulate(make(name), loss, unit, 3, **way)
        return [(str(trial.params), trial.finished, trial.status) for trial in course.ledger]

    if name == "random":
        assert outcome() == outcome(parallelism="tasks") == outcome(rounds="together")
    else:
        finished = [sorted(outcome(**way)) for way in WAYS]
        assert finished[0] == finished[1] == finished[2]


def test_an_epoch_of_hopping_by_hand() -> None:
    """Two configurations of 1 s and 2 s a unit on two workers, one epoch."""
    search = Listed([{"layers": 1}, {"layers": 2}], epochs=1)
    course = simulate(search, loss, unit, 2)
    shown = [(visit.trial_id, visit.partition, visit.start, visit.end) for visit in course.visits]
    # Unit times are unknown, so the ring decides which trial begins where; then each waits for the other's worker.
    assert sorted(shown) == [("c000", 0, 0.0, 1.0), ("c000", 1, 2.0, 3.0), ("c001", 0, 2.0, 4.0), ("c001", 1, 0.0, 2.0)]
    assert course.makespan == 4
    assert course.idle == 1 - 6 / 8
    assert [(span.trial_id, span.start, span.end, span.epochs) for span in course.spans] == [
        ("c000", 0.0, 3.0, 1),
        ("c001", 0.0, 4.0, 1),
    ]


def test_a_barrier_waits_for_the_longest_and_rolling_does_not() -> None:
    """Four trials at a time, the first one of 8 s an epoch, the others of 2 s: the barrier waits for it twice."""
    configurations = [{"layers": layers} for layers in (4, 1, 1, 1, 1, 1, 1, 1, 1)]

    def run(rounds: str) -> Simulation:
        return simulate(Listed(configurations, epochs=2, concurrency=4), loss, unit, 2, rounds=rounds)

    together = run("together")
    assert together.makespan == 2 * 8 + 2 * 4 + 2 * 2
    # The procedure hears of a round at its end, and of all who took part at once.
    assert [len(exchange.results) for exchange in together.log] == [0, *[4] * 4, 1, 1]
    assert run("rolling").makespan < together.makespan


def test_task_parallelism_trains_a_grant_on_one_worker() -> None:
    """Three of 2 epochs on two workers: the third one trains alone."""
    course = simulate(Listed([{"layers": 1}] * 3, epochs=2), loss, 1.0, 2, parallelism="tasks")
    assert course.makespan == 8
    assert course.idle == pytest.approx(0.25)
    assert {(visit.trial_id, visit.worker) for visit in course.visits} == {("c000", 0), ("c001", 1), ("c002", 0)}


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=8),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from(["rolling", "together"]),
)
def test_no_schedule_is_shorter_than_its_plan(layers: list[int], workers: int, epochs: int, rounds: str) -> None:
    configurations = [{"layers": seconds} for seconds in layers]
    course = simulate(Listed(configurations, epochs=epochs), loss, unit, workers, rounds=rounds)
    assert course.makespan >= epochs * sum(layers)
    assert course.makespan >= epochs * workers * max(layers)
    equal = simulate(Listed(configurations, epochs=epochs), loss, 2.0, workers, rounds=rounds)
    bound = Listed(configurations, epochs=epochs).plan().seconds(2.0, workers=workers)
    assert bound is not None
    assert equal.makespan >= bound


def total(make: Callable[[int], Procedure], **way: Any) -> float:
    return sum(simulate(make(seed), loss, unit, 4, **way).makespan for seed in range(4))


def test_hyperband_without_a_barrier_takes_no_longer_than_with_one() -> None:
    """The trial with the fewest epochs trains first; the longest grant first takes 5 % longer."""

    def hyperband(seed: int) -> Procedure:
        return Hyperband(RandomSampler(SPACE, seed), max_epochs=25)

    assert total(hyperband) <= 1.01 * total(hyperband, rounds="together")


def test_as_many_configurations_as_workers_wait_for_each_other_at_a_barrier() -> None:
    """HyperOpt as in Section 3.6.3: slower than task parallelism with p trials at a time, as fast with 2p."""

    def hyperopt(concurrency: int) -> Callable[[int], Procedure]:
        return lambda seed: RandomSearch(SPACE, configurations=16, epochs=5, concurrency=concurrency, seed=seed)

    tasks = total(hyperopt(4), parallelism="tasks")
    assert total(hyperopt(4), rounds="together") > 1.2 * tasks
    assert total(hyperopt(4)) < 0.9 * total(hyperopt(4), rounds="together")
    assert total(hyperopt(8)) <= 1.05 * tasks


def test_the_procedure_is_told_when_time_is_over() -> None:
    course = simulate(ASHA(RandomSampler(SPACE), max_epochs=9), loss, unit, 3, max_seconds=100.5)
    assert course.makespan == 100.5
    assert max(visit.end for visit in course.visits) == 100.5
    assert all(not trial.live for trial in course.ledger)
    assert any(trial.reason == "time is over" for trial in course.ledger)


def test_a_configuration_that_fails_ends_there() -> None:
    search = Listed([{"layers": 1}, {"layers": 1}], epochs=3)
    course = simulate(search, lambda trial, epoch: None if trial.number == 0 and epoch == 2 else 1.0, 1.0, 2)
    assert [(trial.status, trial.finished) for trial in course.ledger] == [("failed", 1), ("stopped", 3)]


@pytest.mark.parametrize("rounds", ["rolling", "together"])
def test_idle_slots_are_offered(rounds: str) -> None:
    """Without a number of its own, ASHA keeps as many configurations as workers busy."""
    search = ASHA(RandomSampler(SPACE), max_epochs=9, limits=Limits(max_configurations=40))
    course = simulate(search, loss, 1.0, 4, rounds=rounds)
    assert {visit.worker for visit in course.visits if visit.start == 0} == {0, 1, 2, 3}
    assert course.idle < 0.25


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"workers": 0}, "workers must be a whole number of at least 1, got 0"),
        ({"workers": 2, "partitions": 0}, "partitions must be a whole number of at least 1, got 0"),
        ({"workers": 2, "rounds": "none"}, r"rounds must be .*, got 'none'"),
        ({"workers": 2, "parallelism": "none"}, r"parallelism must be .*, got 'none'"),
        ({"workers": 2, "rounds": "together", "parallelism": "tasks"}, "rounds must be 'rolling'"),
        ({"workers": 2, "max_seconds": 0}, "max_seconds must be a number .*, got 0"),
        ({"workers": 2, "seconds": -1.0}, "seconds must be a number .*, got -1"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    search = Listed([{"layers": 1}], epochs=1)
    with pytest.raises(InvalidArgumentError, match=message):
        simulate(search, loss, **{"seconds": 1.0, **arguments})


def test_a_procedure_that_was_asked_before_is_refused() -> None:
    search = Listed([{"layers": 1}], epochs=1)
    search.ask()
    with pytest.raises(ProcedureError, match="procedure must be new"):
        simulate(search, loss, 1.0, 1)
    search.ask([EpochResult("c000", 1, {"loss": 1.0})])
    with pytest.raises(ProcedureError, match="asked before"):
        simulate(search, loss, 1.0, 1)
