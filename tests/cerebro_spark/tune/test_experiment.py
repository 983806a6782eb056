"""Searches in the background: what their users do to them, on models that are those of plain loops."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from searches import adult, common, plain_loop, search, states

from cerebro_spark import ASHA, Experiment, GridSearch, Selection, Store
from cerebro_spark.errors import InvalidArgumentError, RunError
from cerebro_spark.hopper import Journal
from optimizer.procedures import Added, Origin, OutOfTime, Stopped

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from udfs.shards import PreparedData

MANY = 400


@pytest.fixture(scope="module")
def prepared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    store = Store.from_uri(str(tmp_path_factory.mktemp("store")))
    return search(spark, store).prepare(adult(spark, 400))


def grid(spark: SparkSession, store: Store, **settings: Any) -> GridSearch:
    usual = {"search_space": {"lr": [0.1, 0.01], "hidden": [4]}, "num_epochs": MANY, "metric": "loss"}
    return GridSearch(**common(spark, store, **usual | settings))


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.05)


def epochs(experiment: Experiment) -> dict[str, int]:
    return {trial.trial_id: len(trial.history) for trial in experiment.trials}


def exact(found: Selection) -> None:
    held = states(found)
    for trial in found.trials:
        if trial.history:
            plain = plain_loop(found.prepared, trial.params, trial.trial_id, trial.visits, seed=5)
            for name, value in plain.items():
                np.testing.assert_array_equal(held[trial.trial_id][name], value, err_msg=f"{trial.trial_id} {name}")


@pytest.mark.connect
def test_configurations_come_go_and_pause(spark: SparkSession, prepared: PreparedData) -> None:
    experiment = grid(spark, prepared.store).start(prepared, run_id="comes-and-goes")
    assert not experiment.done
    added = experiment.add({"lr": 0.05, "hidden": 8}, epochs=3)
    assert added == "c002"
    until(lambda: epochs(experiment)["c001"] >= 1)
    experiment.stop("c000")
    experiment.pause("c001")
    until(lambda: epochs(experiment)["c002"] == 3)
    with pytest.raises(InvalidArgumentError, match="only paused configurations are left: c001; resume or stop them"):
        experiment.wait()
    paused = epochs(experiment)["c001"]
    assert {trial.trial_id: trial.status for trial in experiment.trials} == {
        "c000": "finished" if epochs(experiment)["c000"] else "stopped",
        "c001": "paused",
        "c002": "finished",
    }
    time.sleep(1.0)
    assert epochs(experiment)["c001"] == paused
    experiment.resume("c001")
    until(lambda: epochs(experiment)["c001"] > paused)
    with pytest.raises(TimeoutError, match="it goes on"):
        experiment.wait(0.0)
    resumed = epochs(experiment)["c001"]
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        experiment.wait()
    until(lambda: epochs(experiment)["c001"] > resumed + 1)
    experiment.end()
    found = experiment.wait()
    reasons = {trial.trial_id: trial.reason for trial in found.trials}
    assert reasons == {
        "c000": "stopped by the user",
        "c001": "ended by the user",
        "c002": "finished its 3 epochs",
    }
    exact(found)
    with pytest.raises(RunError, match="'comes-and-goes' is over"):
        experiment.add({"lr": 0.05, "hidden": 8})
    with pytest.raises(RunError, match="'comes-and-goes' is over"):
        experiment.stop("c000")


@pytest.mark.connect
def test_what_the_user_asked_for_is_resumed(spark: SparkSession, prepared: PreparedData) -> None:
    task = grid(spark, prepared.store, num_epochs=3)
    experiment = task.start(prepared, run_id="asked-for")
    experiment.add({"lr": 0.05, "hidden": 8}, epochs=2)
    found = experiment.wait()
    again = task.resume("asked-for")
    assert [(trial.trial_id, trial.params, trial.history, trial.reason) for trial in again.trials] == [
        (trial.trial_id, trial.params, trial.history, trial.reason) for trial in found.trials
    ]
    assert {trial.trial_id: len(trial.history) for trial in again.trials} == {"c000": 3, "c001": 3, "c002": 2}
    exact(again)


def test_a_command_of_a_server_is_carried_out_once(spark: SparkSession, prepared: PreparedData) -> None:
    """It is sent again while the search runs, after its configuration has ended, and to the driver that resumes."""
    experiment = grid(spark, prepared.store, num_epochs=MANY).start(prepared, run_id="commanded")
    origins = {name: Origin(name, "ada", "2026-11-29T21:00:00+00:00") for name in ("add", "clone", "stop", "end")}
    until(lambda: epochs(experiment)["c000"] >= 1)
    for _ in range(2):
        assert experiment.add({"lr": 0.05, "hidden": 8}, epochs=2, origin=origins["add"]) == "c002"
        assert experiment.clone("c000", lr=0.2, epochs=1, origin=origins["clone"]) == "c003"
        experiment.stop("c001", origin=origins["stop"])
    with pytest.raises(InvalidArgumentError, match=r"c001 has ended.*stopped by ada"):
        experiment.stop("c001", origin=Origin("another", "ada", ""))
    until(lambda: epochs(experiment)["c003"] == 1 and epochs(experiment)["c002"] == 2)
    experiment.end(origin=origins["end"])
    found = experiment.wait()
    assert {trial.trial_id: trial.reason for trial in found.trials} == {
        "c000": "ended by ada",
        "c001": "stopped by ada",
        "c002": "finished its 2 epochs",
        "c003": "finished its 1 epochs",
    }
    journalled = [
        result.origin
        for order in Journal(prepared.store, "commanded").orders()
        for result in order.results
        if isinstance(result, (Added, Stopped, OutOfTime))
    ]
    assert journalled == list(origins.values())


def test_a_pause_gives_an_open_procedure_the_free_slot(spark: SparkSession, prepared: PreparedData) -> None:
    settings = {"search_space": {"lr": [0.1], "hidden": [4]}, "max_epochs": MANY, "max_configurations": 6}
    experiment = ASHA(**common(spark, prepared.store, metric="loss"), **settings, min_epochs=MANY).start(prepared)
    until(lambda: bool(experiment.trials))
    begun = len(experiment.trials)
    assert begun < 6
    experiment.pause("c000")
    until(lambda: len(experiment.trials) > begun)
    experiment.end()
    experiment.wait()


def test_bad_requests_are_refused_and_the_search_goes_on(spark: SparkSession, prepared: PreparedData) -> None:
    task = grid(spark, prepared.store)
    for begin in (task.start, task.fit):
        with pytest.raises(InvalidArgumentError, match="run_id must name the run that if_begun='resume' looks for"):
            begin(prepared, if_begun="resume")
    with pytest.raises(InvalidArgumentError, match="a run"):
        task.start(prepared, run_id="../elsewhere")
    experiment = grid(spark, prepared.store, max_configurations=3).start(prepared)
    for call, said in (
        (lambda: experiment.stop("c007"), "trial_id must name a configuration of the run, got 'c007'"),
        (lambda: experiment.pause("c007"), "trial_id must name a configuration of the run, got 'c007'"),
        (lambda: experiment.resume("c000"), "c000 is not paused"),
        (lambda: experiment.add({"lr": object()}), "must be plain data"),
        (lambda: experiment.add({"lr": 0.1}, epochs=0), r"epochs must be .*, got 0"),
    ):
        with pytest.raises(InvalidArgumentError, match=said):
            call()
    experiment.pause("c000")
    with pytest.raises(InvalidArgumentError, match="c000 is paused already"):
        experiment.pause("c000")
    experiment.stop("c000")
    for call in (experiment.stop, experiment.pause, experiment.prioritise):
        with pytest.raises(InvalidArgumentError, match=r"c000 has ended.*stopped by the user"):
            call("c000")  # type: ignore[call-arg]
    experiment.add({"lr": 0.01, "hidden": 4})
    with pytest.raises(InvalidArgumentError, match="limit of 3 configurations"):
        experiment.add({"lr": 0.01, "hidden": 4})
    until(lambda: epochs(experiment)["c002"] >= 1)
    experiment.end()
    assert experiment.wait().best.trial_id in {"c001", "c002"}


def test_an_error_before_the_first_unit_is_told_by_whoever_waits(spark: SparkSession, prepared: PreparedData) -> None:
    def wrong(_: dict[str, Any]) -> Any:
        raise ValueError("no such network")

    experiment = grid(spark, prepared.store, trainer_fn=wrong).start(prepared)
    with pytest.raises(Exception, match="no such network"):
        experiment.wait()
    assert experiment.done
    with pytest.raises(Exception, match="no such network"):
        experiment.stop("c000")
