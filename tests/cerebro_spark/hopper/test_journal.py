"""A run as its store has it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from cerebro_spark.hopper import Event, Journal, RunSpec, Trial
from udfs.hopper import Checkpoints, Record
from udfs.store import Store

if TYPE_CHECKING:
    from pathlib import Path

SPEC = RunSpec(
    run="first",
    prepared="people",
    configs=[{"lr": 0.1}],
    trainer="module:trainer",
    epochs=3,
    seed=1,
    policy="fixed",
    replicas=1,
    metric="loss",
    larger_is_better=False,
)


def test_a_run_of_the_first_version_is_read(tmp_path: Path) -> None:
    """It was journalled when a trial's id was called "config"."""
    store = Store.from_uri(str(tmp_path))
    journal = Journal(store, "first")
    journal.begin(SPEC)
    trial = Trial("c000", {"lr": 0.1}, history=[{"loss": 0.5}])
    event = Event(kind="train", trial_id="c000", worker="w0", epoch=0, partition=0, began=0.0, ended=1.0, seconds=0.9)
    Checkpoints(store, "first").write(Record("c000", 1, "d1", ((0, 0),), {"loss": [1.0, 2.0]}), b"state")
    journal.close_epoch(0, [trial], [event])
    journalled = [*tmp_path.rglob("epoch-0000.json"), *tmp_path.glob("runs/first/checkpoints/c000/*.json")]
    assert len(journalled) == 2
    for path in journalled:
        today = path.read_text()
        path.write_text(today.replace('"trial_id"', '"config"'))
        assert path.read_text() != today
        assert json.loads(path.read_text())
    assert journal.events() == [event]
    (read,) = journal.trials(journal.spec())
    assert (read.trial_id, read.visits, read.history) == ("c000", [(0, 0)], [{"loss": 0.5}])
