"""Events that callbacks get from real runs: fit, resume and replay, with a failing and a slow callback."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from recorder import Recorder
from searches import adult, search, trainer

from cerebro_spark import Selection, SparkBackend, Store
from cerebro_spark.callbacks import (
    Callback,
    EpochFinished,
    RunFailed,
    RunFinished,
    RunStarted,
    TrialFinished,
    UnitFinished,
    WorkerLost,
)
from cerebro_spark.errors import RunError
from cerebro_spark.hopper import Coordinator, Journal
from udfs.driver import _worker_jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cerebro_spark import ModelTrainer, PreparedData

TASK: dict[str, Any] = {"search_space": {"lr": [0.01], "hidden": [4, 8]}, "num_epochs": 2, "rounds": "together"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store.from_uri(str(tmp_path_factory.mktemp("store")))


@pytest.fixture(scope="module")
def prepared(spark: SparkSession, store: Store) -> PreparedData:
    return search(spark, store, **TASK).prepare(adult(spark, 300))


@pytest.fixture(scope="module")
def backend(spark: SparkSession) -> SparkBackend:
    return SparkBackend(spark, num_workers=2, threads=1)


class Raising(Callback):
    def unit_finished(self, event: UnitFinished) -> None:
        raise ZeroDivisionError(event.trial_id)


class Slow(Callback):
    """Stays with the first unit until the run has closed its last epoch: without it the run has to go on."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.run_went_on: bool | None = None

    def unit_finished(self, event: UnitFinished) -> None:  # the first one, whichever it is
        if self.run_went_on is None:
            until = time.monotonic() + 60
            while not self.store.exists("runs", "followed", "events", "part-000001.json") and time.monotonic() < until:
                time.sleep(0.05)
            self.run_went_on = time.monotonic() < until


@pytest.fixture(scope="module")
def slow(store: Store) -> Slow:
    return Slow(store)


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture(scope="module")
def followed(spark: SparkSession, prepared: PreparedData, recorder: Recorder, slow: Slow) -> Selection:
    callbacks = [Raising(), slow, recorder]
    return search(spark, prepared.store, callbacks=callbacks, **TASK).fit(prepared, run_id="followed")


@pytest.mark.usefixtures("followed")
def test_a_callback_that_takes_its_time_delays_no_unit(slow: Slow) -> None:
    assert slow.run_went_on


def test_a_run_is_told_from_start_to_end(followed: Selection, recorder: Recorder) -> None:
    start, *middle, end = recorder.events
    assert isinstance(start, RunStarted)
    assert (start.run_id, start.epoch, start.num_epochs, start.num_units) == ("followed", 0, 2, 8)
    assert (start.metric, start.larger_is_better) == ("val_accuracy", True)
    assert {trial.trial_id: trial.params for trial in start.trials} == {
        "c000": {"lr": 0.01, "hidden": 4},
        "c001": {"lr": 0.01, "hidden": 8},
    }
    assert isinstance(end, RunFinished)
    assert end.seconds == followed.outcome.seconds
    assert tuple(recorder.of(UnitFinished)) == followed.outcome.events
    # Per epoch: two trials on two shards, trained and evaluated; then the epoch; at the end the trials.
    kinds = [UnitFinished] * 8 + [EpochFinished]
    assert [type(event) for event in middle] == [*kinds, *kinds, TrialFinished, TrialFinished]
    assert [event.epoch for event in middle[:-2]] == [0] * 9 + [1] * 9
    told = [event.metrics for event in recorder.of(EpochFinished)]
    assert told == [{name: history[epoch] for name, history in followed.history().items()} for epoch in (0, 1)]
    assert [(event.trial_id, event.status) for event in middle[-2:]] == [("c000", "finished"), ("c001", "finished")]


def test_a_resumed_run_tells_where_it_goes_on(followed: Selection, backend: SparkBackend) -> None:
    recorder = Recorder()
    before = followed.history()
    longer = Selection.resume(
        followed.prepared.store,
        "followed",
        backend=backend,
        trainer_fn=trainer,
        num_epochs=3,
        callbacks=[recorder],
        progress=False,
    )
    (start,) = recorder.of(RunStarted)
    assert (start.epoch, start.num_epochs, start.num_units) == (2, 3, 12)
    assert start.seconds == max(event.ended for event in followed.outcome.events)
    assert {trial.trial_id: list(trial.history) for trial in start.trials} == before
    assert [trial.units for trial in start.trials] == [4, 4]
    (epoch,) = recorder.of(EpochFinished)
    assert epoch.epoch == 2
    assert epoch.metrics == {name: history[2] for name, history in longer.history().items()}
    assert {event.epoch for event in recorder.of(UnitFinished)} == {2}
    assert isinstance(recorder.events[-1], RunFinished)


def test_a_replay_is_told_as_a_run_of_its_own(followed: Selection, backend: SparkBackend) -> None:
    recorder = Recorder()
    again = followed.replay(backend=backend, run_id="again", callbacks=[recorder], progress=False)
    (start,) = recorder.of(RunStarted)
    assert (start.run_id, start.epoch) == ("again", 0)
    assert tuple(recorder.of(UnitFinished)) == again.outcome.events
    # A replay has no rounds: an event may have one configuration alone.
    epochs = [event.metrics["c001"] for event in recorder.of(EpochFinished) if "c001" in event.metrics]
    assert epochs == again.history()["c001"]


def test_trials_that_end_early_and_lost_workers_are_told(
    spark: SparkSession, prepared: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_after = Coordinator.look_after
    lost: list[str] = []

    def forgetful(self: Coordinator) -> tuple[str, ...]:
        if not lost and "w0" in self.alive and self.trials[0].version >= 1:
            lost.append("w0")
            self.lose("w0", "taken for lost")
        return look_after(self)

    def fragile(params: dict[str, Any]) -> ModelTrainer:
        if params["fails"]:
            raise ZeroDivisionError("of the user's own")
        return trainer({"hidden": 4, "lr": 0.01})

    monkeypatch.setattr(Coordinator, "look_after", forgetful)
    monkeypatch.setattr(_worker_jobs, "_LOOK_S", 0.005)
    recorder = Recorder()
    space = [{"fails": False}, {"fails": True}]
    found = search(
        spark, prepared.store, trainer_fn=fragile, search_space=space, num_epochs=6, callbacks=[recorder]
    ).fit(prepared)
    early, late = recorder.of(TrialFinished)
    assert (early.trial_id, early.status) == ("c001", "raised")
    assert "of the user's own" in early.traceback
    assert (late.trial_id, late.status, late.traceback) == ("c000", "finished", "")
    assert recorder.events.index(early) < recorder.events.index(recorder.of(EpochFinished)[0])
    assert all(event.metrics.keys() == {"c000"} for event in recorder.of(EpochFinished))
    assert lost
    assert tuple(recorder.of(WorkerLost)) == found.outcome.losses
    assert recorder.of(WorkerLost)[0].why == "taken for lost"


def test_a_run_that_stops_is_told_last_and_is_resumed(
    spark: SparkSession, prepared: PreparedData, backend: SparkBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError("the disk is full")

    recorder = Recorder()
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "close", full)
        with pytest.raises(RunError, match="the disk is full"):
            search(spark, prepared.store, callbacks=[recorder], **TASK).fit(prepared, run_id="stops")
    failed = recorder.events[-1]
    assert isinstance(failed, RunFailed)
    assert failed.error.startswith("RunError: run 'stops' stopped in epoch 0: the disk is full")
    assert not recorder.of(EpochFinished), "its metrics are not in the store"
    found = Selection.resume(
        prepared.store, "stops", backend=backend, trainer_fn=trainer, callbacks=[recorder], progress=False
    )
    assert [event.epoch for event in recorder.of(EpochFinished)] == [0, 1]
    assert found.best.status == "finished"
