"""Freezing schedules in a search on real Spark: interrupted, resumed and replayed, with the bits of a plain loop."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pyspark import cloudpickle
from searches import adult, disk_full_after, plain_loop, search, states, trainer

from cerebro_spark import ModelTrainer, Selection, SparkBackend, Store
from cerebro_spark.errors import RunError, TrainerError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

cloudpickle.register_pickle_by_value(sys.modules[__name__])

# By epoch. The first phase holds the linear layer and the batch norm.
PHASES = {0: "1", 1: "0", 2: None}
FROZEN = [(0, 1), (0,), ()]


def scheduled(params: dict[str, Any]) -> ModelTrainer:
    return replace(trainer(params), freeze_until=PHASES)


def check(found: Selection) -> None:
    held = states(found)
    assert len(held) == 2
    for trial in found.trials:
        assert trial.status == "finished", trial.traceback
        truth = plain_loop(found.prepared, trial.params, trial.trial_id, trial.visits, found.spec.seed, FROZEN)
        for name, value in truth.items():
            np.testing.assert_array_equal(held[trial.trial_id][name], value, err_msg=f"{trial.trial_id} {name}")


@pytest.mark.extended
def test_models_that_are_interrupted_resumed_and_replayed_are_those_of_a_plain_loop(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.from_uri(str(tmp_path))
    space = {"lr": [0.01], "hidden": [8, 16]}
    sought = search(spark, store, trainer_fn=scheduled, search_space=space, num_epochs=3)
    with disk_full_after(3, monkeypatch), pytest.raises(RunError, match="the disk is full"):
        sought.fit(adult(spark, 600), run_id="run")
    backend = SparkBackend(spark, num_workers=2, threads=1)
    found = Selection.resume(store, "run", backend=backend, trainer_fn=scheduled, progress=False)
    assert any(event.fetched_bytes for event in found.outcome.events), "nothing hopped"
    check(found)
    check(found.replay(backend=backend, progress=False))
    short = search(spark, store, trainer_fn=scheduled, search_space=space, num_epochs=2)
    with pytest.raises(TrainerError, match="must be below epochs=2, got 2"):
        short.fit(found.prepared)
