"""Events reach every callback, in order, and no callback disturbs the run or another callback."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from recorder import Recorder

from cerebro_spark.callbacks import (
    Callback,
    EpochFinished,
    EventStream,
    ProgressTable,
    RunFailed,
    RunFinished,
    RunStarted,
    TrialFinished,
    TrialState,
    UnitFinished,
    WorkerLost,
)
from cerebro_spark.hopper import Run, RunContext, RunSpec, Trial
from optimizer.procedures import Listed
from udfs.store import Store

if TYPE_CHECKING:
    from pathlib import Path

CONFIGS = [{"lr": 0.1}, {"lr": 0.2}]
SPEC = RunSpec("first", "people", CONFIGS, "m:f", 2, 0, "fixed", 1, "val_accuracy", True, "rolling", "GridSearch")


def trials() -> tuple[TrialState, ...]:
    return tuple(
        TrialState(trial_id=trial_id, params={"lr": lr}, status="running", units=0, history=())
        for trial_id, lr in (("c000", 0.1), ("c001", 0.2))
    )


def started() -> RunStarted:
    return RunStarted(
        run_id="first",
        trials=trials(),
        epoch=0,
        num_epochs=2,
        num_units=8,
        seconds=0.0,
        metric="val_accuracy",
        larger_is_better=True,
    )


def unit(trial_id: str, partition: int, worker: str = "w0") -> UnitFinished:
    return UnitFinished(
        kind="train", trial_id=trial_id, worker=worker, epoch=0, partition=partition, began=0.0, ended=1.0, seconds=1.0
    )


def story() -> list[Any]:
    """One event of each type."""
    return [
        started(),
        unit("c000", 0),
        WorkerLost(3.0, "w1", "node", "no word"),
        EpochFinished(epoch=0, metrics={"c000": {"val_accuracy": 0.5}, "c001": {"val_accuracy": 0.75}}),
        TrialFinished(trial_id="c000", status="diverged", traceback="at row 3"),
        RunFailed(run_id="first", error="OSError: the disk is full"),
        RunFinished(run_id="first", seconds=4.0),
    ]


def test_every_event_arrives_in_order_before_the_stream_closes() -> None:
    recorders = [Recorder(), Recorder()]
    with EventStream(recorders) as stream:
        for event in story():
            stream.publish(event)
    assert recorders[0].events == recorders[1].events == story()


def test_a_callback_that_overrides_nothing_hears_of_everything() -> None:
    with EventStream([Callback()]) as stream:
        for event in story():
            stream.publish(event)


@pytest.mark.parametrize("error", [ZeroDivisionError("of the user's own"), SystemExit(3)])
def test_a_callback_that_raises_is_logged_and_the_others_go_on(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    class Raising(Recorder):
        def unit_finished(self, event: UnitFinished) -> None:  # it raises, whatever it gets
            raise error

    raising, after = Raising(), Recorder()
    with caplog.at_level(logging.ERROR), EventStream([raising, after]) as stream:
        for event in story():
            stream.publish(event)
    assert after.events == story()
    assert len(raising.events) == len(story()) - 1, "it hears of the events after the one that it failed at"
    (record,) = caplog.records
    assert "Raising failed in unit_finished" in record.getMessage()
    assert record.exc_info is not None


def test_publishing_waits_for_no_callback() -> None:
    gate = threading.Event()
    heard: list[Any] = []

    class Blocked(Callback):
        def unit_finished(self, event: UnitFinished) -> None:
            assert gate.wait(30)
            heard.append(event)

    with EventStream([Blocked()]) as stream:
        for place in range(100):
            stream.publish(unit("c000", place))
        assert heard == []
        gate.set()
    assert [event.partition for event in heard] == list(range(100))


def run(trials: list[Trial], folder: Path) -> Run:
    given = {trial.trial_id: trial for trial in trials}
    journal: Any = SimpleNamespace(
        run="first", events=list, orders=list, order=lambda _: None, trial=lambda trial_id, *_: given[trial_id]
    )
    prepared: Any = SimpleNamespace(partitions=(0, 1), store=Store.from_uri(str(folder)))
    nothing: Any = None
    backend: Any = SimpleNamespace(num_workers=1)
    return Run(
        context=RunContext(spec=SPEC, prepared=prepared, backend=backend, trainer_fn=nothing, probed=nothing),
        procedure=Listed(SPEC.configs, epochs=2, metric="val_accuracy", mode="max"),
        journal=journal,
        lease=nothing,
        interrupts=nothing,
    )


def test_a_run_that_fails_says_so_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(Run, "_train", fail)
    recorder = Recorder()
    with pytest.raises(OSError, match="the disk is full"):
        run([Trial("c000", {"lr": 0.1}), Trial("c001", {"lr": 0.2})], tmp_path).execute([recorder])
    assert [type(event) for event in recorder.events] == [RunStarted, RunFailed]
    assert recorder.events[-1] == RunFailed(run_id="first", error="OSError: the disk is full")


def test_a_run_with_nothing_to_train_tells_what_there_is(tmp_path: Path) -> None:
    recorder = Recorder()
    history = [{"loss": 1.0, "val_accuracy": 0.25}, {"loss": 0.5, "val_accuracy": 0.5}]
    finished = Trial("c000", {"lr": 0.1}, status="finished", history=history)
    diverged = Trial("c001", {"lr": 0.2}, status="diverged", history=history[:1])
    run([finished, diverged], tmp_path).execute([recorder])
    start, end = recorder.events
    assert isinstance(start, RunStarted)
    assert [(trial.trial_id, trial.status, len(trial.history)) for trial in start.trials] == [
        ("c000", "finished", 2),
        ("c001", "diverged", 1),
    ]
    assert start.epoch == 2
    assert isinstance(end, RunFinished)


def test_the_progress_table_counts_a_unit_once_and_puts_the_best_first() -> None:
    table = ProgressTable()
    with EventStream([table]) as stream:
        stream.publish(started())
        for event in (unit("c000", 0), unit("c001", 0, "w1"), unit("c001", 1), unit("c001", 1)):
            stream.publish(event)
        for event in story()[2:-2]:
            stream.publish(event)
        stream.publish(RunFinished(run_id="first", seconds=4.0))
    drawn = table.table()
    assert str(drawn.title).startswith("epoch 1, 3 of 8 units, 1 workers, ")
    assert str(drawn.title).endswith("1 workers lost")
    line = table.line()
    assert line.startswith("first: epoch 1, 3 of 8 units, 1 workers, ")
    assert line.endswith(" s, 1 workers lost; best val_accuracy 0.7500 (c001)")
    columns = [list(column.cells) for column in drawn.columns]
    assert columns == [
        ["c001", "c000"],
        ["lr=0.2", "lr=0.1"],
        ["running", "diverged"],
        ["2", "1"],
        ["0.7500", "0.5000"],
    ]
