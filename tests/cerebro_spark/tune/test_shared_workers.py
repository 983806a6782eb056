"""Searches that share the workers of one session: all train, none waits for another's end, each model is its own."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark import cloudpickle

torch = pytest.importorskip("torch")

from searches import BATCH, FEATURES, adult, common, plain_loop, search, states, trainer
from sessions import CONNECT

from cerebro_spark import Experiment, GridSearch, ModelTrainer, RandomSearch, Selection, SparkBackend, Store
from cerebro_spark.callbacks import Callback, UnitFinished
from cerebro_spark.errors import BusyError
from cerebro_spark.hopper import uses_slots

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from udfs.shards import PreparedData

# The workers have no such module: its functions go to them by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

MANY = 400


class Units(Callback):
    """Notes the units of several searches, in the order in which they end."""

    def __init__(self, seen: list[str], name: str) -> None:
        self._seen, self._name = seen, name

    def unit_finished(self, _: UnitFinished) -> None:
        self._seen.append(self._name)


def talkative(params: dict[str, Any]) -> ModelTrainer:
    """Say which process trains, and for whom."""
    made = trainer(params)

    def say(*_: Any) -> None:
        if made.model.training:
            print(f"{params['name']} in {os.getpid()}")

    made.model[0].register_forward_hook(say)
    return made


def other_trainer(params: dict[str, Any]) -> ModelTrainer:
    net = torch.nn.Sequential(
        torch.nn.Linear(len(FEATURES), 16), torch.nn.Tanh(), torch.nn.Dropout(0.5), torch.nn.Linear(16, 2)
    )
    print(f"other in {os.getpid()}")
    optimizer = torch.optim.SGD(net.parameters(), lr=params["rate"], momentum=0.9)
    return ModelTrainer(
        model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), metrics=["accuracy"], batch_size=BATCH
    )


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    return adult(spark, 500).cache()


@pytest.fixture(scope="module")
def prepared(spark: SparkSession, table: DataFrame, tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    return search(spark, Store.from_uri(str(tmp_path_factory.mktemp("store")))).prepare(table)


def grid(spark: SparkSession, store: Store, name: str, **settings: Any) -> GridSearch:
    space = {"lr": [0.01, 0.001], "hidden": [8], "name": [name]}
    usual = {"trainer_fn": talkative, "search_space": space, "num_epochs": MANY, "metric": "loss"}
    return GridSearch(**common(spark, store, **usual | settings))


def until(condition: Callable[[], bool], seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.02)


def epochs(experiment: Experiment) -> int:
    return sum(len(trial.history) for trial in experiment.trials)


def pids(found: Selection | Experiment, name: str) -> set[int]:
    """The processes that trained; a log has its own search's lines alone."""
    lines = [line for trial in found.trials for line in trial.log.splitlines() if not line.startswith("[")]
    assert all(re.fullmatch(rf"{name} in \d+", line) for line in lines if line)
    return {int(line.rpartition(" ")[2]) for line in lines if line.startswith(name)}


def exact(found: Selection) -> None:
    held = states(found)
    assert held
    for trial_id, state in held.items():
        trial = next(trial for trial in found.trials if trial.trial_id == trial_id)
        plain = plain_loop(found.prepared, trial.params, trial_id, trial.visits, seed=5)
        for name, value in plain.items():
            np.testing.assert_array_equal(state[name], value, err_msg=f"{trial_id} {name}")


def running_tasks(spark: SparkSession) -> int:
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return sum(stage.numActiveTasks for stage in stages if stage is not None)


@pytest.mark.connect
def test_searches_over_other_data_train_beside_each_other(spark: SparkSession, store: Store, table: DataFrame) -> None:
    """They are begun one after the other, each with a DataFrame: neither takes the slots before both are prepared."""
    seen: list[str] = []
    settings = {"num_epochs": 30, "schedule": "fixed"}
    others = {
        "trainer_fn": other_trainer,
        "search_space": {"rate": [0.1, 0.01, 0.05]},
        "num_epochs": 25,
        "schedule": "fixed",
        "metric": "accuracy",
        "max_configurations": 3,
    }
    first = grid(spark, store, "first", callbacks=[Units(seen, "first")], **settings).start(table)
    second = GridSearch(**common(spark, store, callbacks=[Units(seen, "second")], **others)).start(
        table.where("hours_per_week > -1"), run_id="second"
    )
    found, other = first.wait(), second.wait()
    exact(found)
    alone = GridSearch(**common(spark, store, **others)).fit(other.prepared, run_id="alone")
    assert other.prepared.name != found.prepared.name
    assert [(trial.trial_id, trial.history) for trial in alone.trials] == [
        (trial.trial_id, trial.history) for trial in other.trials
    ]
    held = states(alone)
    for trial_id, state in states(other).items():
        for name, value in state.items():
            np.testing.assert_array_equal(held[trial_id][name], value)
    assert len(pids(found, "first")) == 2
    assert pids(other, "other") == pids(found, "first")
    # By the time that one of them has half of its units, the other has some.
    for name, units in (("first", 2 * 6 * 4), ("second", 3 * 5 * 4)):
        half = [place for place, each in enumerate(seen) if each == name][units // 2]
        assert len(set(seen[:half])) == 2
    assert CONNECT or running_tasks(spark) == 0


@pytest.mark.connect
def test_one_joins_one_ends_and_the_others_go_on(spark: SparkSession, prepared: PreparedData) -> None:
    first = grid(spark, prepared.store, "first").start(prepared)
    second = grid(spark, prepared.store, "second", rounds="together").start(prepared)
    until(lambda: epochs(first) >= 3 and epochs(second) >= 3)
    space = {"lr": [0.02, 0.03, 0.04], "hidden": [4], "name": ["third"]}
    settings = {"trainer_fn": talkative, "search_space": space, "metric": "loss", "num_epochs": 2}
    third = RandomSearch(**common(spark, prepared.store, **settings), num_configurations=2).fit(prepared)
    exact(third)
    assert not first.done
    before = epochs(second)
    first.end()
    found = first.wait()
    exact(found)
    # The processes are the same, and go on.
    until(lambda: epochs(second) > before + 2)
    assert pids(second, "second") == pids(found, "first") == pids(third, "third")
    with pytest.raises(BusyError, match=r"have num_workers=2.*asks for num_workers=1"):
        grid(spark, prepared.store, "x", backend=SparkBackend(spark, num_workers=1, threads=1)).start(prepared)
    with pytest.raises(BusyError, match=r"have threads=1.*asks for threads=2"):
        grid(spark, prepared.store, "x", backend=SparkBackend(spark, num_workers=2, threads=2)).fit(prepared)
    # Data that are not prepared would wait for the end of the second search.
    with pytest.raises(BusyError, match=r"holds its task slots \(2 workers, 2 slots\).*of its prepare\(df\)"):
        grid(spark, prepared.store, "x").start(adult(spark, 100), run_id="refused")
    assert "refused" not in prepared.store.list("runs")
    assert not second.done
    second.end()
    exact(second.wait())
    with uses_slots(spark):
        assert spark.range(3).count() == 3


@pytest.mark.connect
def test_an_interrupted_search_leaves_the_other_its_workers(spark: SparkSession, prepared: PreparedData) -> None:
    experiment = grid(spark, prepared.store, "lasting").start(prepared)
    until(lambda: epochs(experiment) >= 2)

    def interrupt() -> None:
        until(lambda: len(prepared.store.list("runs", "interrupted", "orders")) >= 3)
        os.kill(os.getpid(), signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    task = grid(spark, prepared.store, "interrupted", num_epochs=12)
    with pytest.raises(KeyboardInterrupt, match="run 'interrupted' was interrupted in epoch"):
        task.fit(prepared, run_id="interrupted")
    interrupter.join()
    before = epochs(experiment)
    until(lambda: epochs(experiment) > before + 2)
    exact(task.resume("interrupted"))
    experiment.end()
    found = experiment.wait()
    exact(found)
    assert found.outcome.losses == ()
    assert len(pids(found, "lasting")) == 2


@pytest.mark.extended
def test_all_recover_from_a_killed_process(spark: SparkSession, prepared: PreparedData) -> None:
    first = grid(spark, prepared.store, "first").start(prepared)
    second = grid(spark, prepared.store, "second").start(prepared)
    until(lambda: epochs(first) >= 2 and epochs(second) >= 2)
    killed = min(pids(first, "first"))
    os.kill(killed, signal.SIGKILL)
    before = epochs(first), epochs(second)
    until(lambda: epochs(first) > before[0] + 4 and epochs(second) > before[1] + 4)
    for experiment, name in ((first, "first"), (second, "second")):
        experiment.end()
        found = experiment.wait()
        exact(found)
        assert len(found.outcome.losses) == 1
        assert killed in pids(found, name)
        assert len(pids(found, name)) == 3
        assert found.outcome.redone <= 3, "its unit, and what it had not written yet"


@pytest.mark.slow
def test_a_unit_that_hangs_costs_the_other_search_a_process_at_most(
    spark: SparkSession, prepared: PreparedData, tmp_path: Path
) -> None:
    """It is not blamed for it: with one restart a worker, it outlives four such losses."""
    backend = SparkBackend(spark, num_workers=2, threads=1, restarts=1)

    driver = os.getpid()  # the trial before the run is to pass there

    def hanging(params: dict[str, Any]) -> ModelTrainer:
        made = trainer(params)

        def hang(*_: Any) -> None:
            if made.model.training and params["hangs"] and os.getpid() != driver:
                (tmp_path / "hangs").touch()
                time.sleep(600)

        made.model[0].register_forward_hook(hang)
        return made

    lasting = grid(spark, prepared.store, "lasting", backend=backend).start(prepared)
    until(lambda: epochs(lasting) >= 2)
    space = {"lr": [0.01, 0.02], "hidden": [4], "hangs": [True]}
    settings = {"trainer_fn": hanging, "search_space": space, "num_epochs": 2, "metric": "loss", "backend": backend}
    found = search(spark, prepared.store, unit_timeout_s=3.0, **settings).fit(prepared)
    assert (tmp_path / "hangs").exists()
    assert {trial.status for trial in found.trials} == {"failed"}
    before = epochs(lasting)
    until(lambda: epochs(lasting) > before + 2)
    lasting.end()
    exact(lasting.wait())
    assert {trial.status for trial in lasting.trials} <= {"finished", "stopped"}
