"""Candidates with a freezing schedule in a campaign: they train whole, with the bits of a plain loop."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from campaigns import BATCH, SEED, campaign, frame, learned, records, trainer
from pyspark import cloudpickle

from udfs.node import CACHE_VARIABLE
from udfs.shards import load_shard
from udfs.training import initial_seed, row_order

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from cerebro_spark import ModelTrainer
    from cerebro_spark.adaptation import Cycle

cloudpickle.register_pickle_by_value(sys.modules[__name__])

# Modules of which nothing learns, by epoch: those of the trunk never do.
TRUNK = 2
FROZEN = [(2, 3), ()]


def scheduled(params: dict[str, Any]) -> ModelTrainer:
    return replace(trainer(params), freeze_until={0: "3", 1: None})


def plain(cycle: Cycle, trial_id: str) -> dict[str, np.ndarray]:
    trial = next(each for each in cycle.trials if each.trial_id == trial_id)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(initial_seed(SEED, trial_id))
    built = trainer(trial.params)
    for place, (epoch, partition) in enumerate(trial.visits):
        built.model.train()
        for number, layer in enumerate(built.model):
            layer.requires_grad_(number >= TRUNK and number not in FROZEN[epoch])
            layer.train(number not in FROZEN[epoch])
        data = load_shard(cycle.prepared, "train", partition)
        order = row_order(SEED, "", epoch, partition, data.rows)
        for start in range(0, len(order), BATCH):
            picked = order[start : start + BATCH]
            built.optimizer.zero_grad()
            labels = torch.from_numpy(data.labels[0][picked]).long()
            built.loss(built.model(torch.from_numpy(data.inputs[0][picked])), labels).backward()
            built.optimizer.step()
        if place % 2 == 1:
            built.scheduler.step()
    torch.set_num_threads(threads)
    return {name: value.numpy() for name, value in built.model.state_dict().items()}


@pytest.mark.extended
def test_a_campaign_with_a_schedule_equals_a_plain_loop(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    made = campaign(spark, tmp_path / "store", trainer_fn=scheduled, search_space={"lr": [0.01], "layers": [TRUNK]})
    cycle = made.fit(frame(spark, *records(0, 60)))
    assert "1 of 1 configurations train whole: freeze_until moves the part that learns" in cycle.explain()
    (trial,) = cycle.trials
    assert trial.status == "finished", trial.traceback
    truth, found = plain(cycle, trial.trial_id), learned(cycle)[trial.trial_id]
    assert set(found) == set(truth)
    for name, value in truth.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
