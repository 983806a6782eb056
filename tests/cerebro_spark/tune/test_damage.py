"""Damage in a store: reported with a remedy, repaired from the data or an earlier checkpoint, and never trained on."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from searches import adult, search, states, trainer
from sessions import CONNECT

from cerebro_spark import Selection, SparkBackend
from cerebro_spark.callbacks import Callback
from cerebro_spark.errors import RunError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cerebro_spark.callbacks import EpochFinished
    from udfs.store import Store

TASK = {"schedule": "fixed", "search_space": {"lr": [0.01], "hidden": [8, 16]}}


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> DataFrame:
    return adult(spark, 400).cache()


def equal(one: dict[str, dict[str, np.ndarray]], other: dict[str, dict[str, np.ndarray]]) -> None:
    assert one.keys() == other.keys()
    for trial_id, state in one.items():
        for name, value in state.items():
            np.testing.assert_array_equal(value, other[trial_id][name], err_msg=f"{trial_id} {name}")


def flip(path: Path) -> None:
    """Flip a bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_damaged_shard_and_a_damaged_checkpoint(spark: SparkSession, store: Store, table: DataFrame) -> None:
    undisturbed = search(spark, store, **TASK).fit(table, run_id="undisturbed")
    folder = Path(store.path("prepared", undisturbed.prepared.name))

    shard = folder / "train" / "shard-00001.parquet"
    flip(shard)
    began = time.monotonic()
    with pytest.raises(RunError, match=r"shard-00001.parquet is damaged .*: prepare the same rows again"):
        search(spark, store, **TASK).fit(undisturbed.prepared, run_id="damaged")
    assert time.monotonic() - began < 120
    prepared = search(spark, store, **TASK).prepare(table)
    assert prepared == undisturbed.prepared
    backend = SparkBackend(spark, num_workers=2, threads=1)
    repaired = Selection.resume(store, "damaged", backend=backend, trainer_fn=trainer, progress=False)
    equal(states(repaired), states(undisturbed))

    # The last checkpoint of a trial that had finished: it is trained again from the one before.
    (last,) = Path(store.path("runs", "undisturbed", "checkpoints", "c001")).glob("000004-*.safetensors")
    expected = states(undisturbed)
    flip(last)
    backend = SparkBackend(spark, num_workers=2, threads=1)
    again = Selection.resume(store, "undisturbed", backend=backend, trainer_fn=trainer, progress=False)
    equal(states(again), expected)
    assert again.history() == undisturbed.history()


class DamagesAll(Callback):
    """Once the first epoch is over, flips a bit of each checkpoint but those of first units, and kills all workers."""

    def __init__(self, checkpoints: Path) -> None:
        self.checkpoints = checkpoints
        self.epochs: list[int] = []
        self.killed = 0

    def epoch_finished(self, event: EpochFinished) -> None:
        self.epochs.append(event.epoch)
        if self.killed:
            return
        import psutil  # not everybody has it

        workers = []
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):  # it has ended
                if any(word.startswith("heartbeat of ") for word in process.cmdline()):
                    workers.append(process.parent())
        for worker in workers:
            worker.kill()
        self.killed = len(workers)
        for path in self.checkpoints.glob("*/*.safetensors"):
            if not path.name.startswith("000001-"):
                flip(path)


@pytest.mark.extended
@pytest.mark.skipif(CONNECT, reason="the workers are below the server's process")
def test_checkpoints_of_an_epoch_that_was_over_are_damaged_in_a_run(
    spark: SparkSession, store: Store, table: DataFrame
) -> None:
    pytest.importorskip("psutil")
    undisturbed = search(spark, store, **TASK).fit(table, run_id="undisturbed")
    damages = DamagesAll(Path(store.path("runs", "damaged", "checkpoints")))
    found = search(spark, store, callbacks=[damages], **TASK).fit(undisturbed.prepared, run_id="damaged")
    assert damages.killed == 2
    assert [trial.status for trial in found.trials] == ["finished", "finished"]
    equal(states(found), states(undisturbed))
    assert found.history() == undisturbed.history()
    # One goes back after the other, each once it needs its checkpoint.
    assert damages.epochs.count(0) > 1
    assert damages.epochs[-1] == 1
    assert sorted(set(damages.epochs)) == [0, 1]
    assert all(list(trial.visits) == sorted(trial.visits, key=lambda visit: visit[0]) for trial in found.trials)
