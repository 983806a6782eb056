"""Candidates with a freezing schedule in a campaign: planned by phases, with the bits of a plain loop."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from campaigns import BATCH, SEED, campaign, features_of, frame, learned, network, records, trainer
from pyspark import cloudpickle

from cerebro_spark import Augmentation
from udfs.node import CACHE_VARIABLE
from udfs.training import initial_seed, row_order

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from cerebro_spark import ModelTrainer
    from cerebro_spark.adaptation import Cycle

cloudpickle.register_pickle_by_value(sys.modules[__name__])

EPOCHS = 3
# Up to where all is frozen, by epoch: a layer of the trunk, which is the same for all, or one that a trial draws.
SCHEDULES: dict[str, dict[int, str | None]] = {
    "unfreezing": {0: "3", 1: "1"},
    "freezing": {0: "1", 2: "4"},
    "drawn": {0: "5", 2: "1"},
    "none": {},
}
FROZEN: dict[str, tuple[int, ...]] = {
    "unfreezing": (4, 2, 2),
    "freezing": (2, 2, 5),
    "drawn": (6, 6, 2),
    "none": (4, 4, 4),
}
# Layers whose outputs are stored, and read.
READ: dict[str, tuple[int, ...]] = {
    "unfreezing": (4, 2, 2),
    "freezing": (2, 2, 2),
    "drawn": (4, 4, 2),
    "none": (4, 4, 4),
}


def scheduled(params: dict[str, Any]) -> ModelTrainer:
    """The trunk learns as the model is built, and the schedule freezes it; without one it is frozen for good."""
    schedule = SCHEDULES[params["schedule"]]
    net = network({"layers": 4})
    net.requires_grad_()
    if not schedule:
        net[:4].requires_grad_(requires_grad=False)
    optimizer = torch.optim.Adam([each for each in net.parameters() if each.requires_grad], lr=params["lr"])
    made = trainer({"lr": 0.1, "layers": 4})
    rates = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    return replace(made, model=net, optimizer=optimizer, scheduler=rates, epochs=EPOCHS, freeze_until=schedule)


def plain(cycle: Cycle, trial_id: str) -> dict[str, np.ndarray]:
    """Switch ``requires_grad`` and modes as an epoch begins; what is read are layers of the untrained model."""
    trial = next(each for each in cycle.trials if each.trial_id == trial_id)
    schedule = trial.params["schedule"]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(initial_seed(SEED, trial_id))
    built = scheduled(trial.params)
    stored = {
        (depth, partition): features_of(cycle, partition, built.model.eval()[:depth])
        for depth in set(READ[schedule])
        for partition in (0, 1)
    }
    for place, (epoch, partition) in enumerate(trial.visits):
        depth = READ[schedule][epoch]
        for number, layer in enumerate(built.model):
            layer.requires_grad_(number >= FROZEN[schedule][epoch])
            layer.train(number >= FROZEN[schedule][epoch])
        inputs, labels, _ = stored[depth, partition]
        order = row_order(SEED, "", epoch, partition, len(labels))
        for start in range(0, len(order), BATCH):
            picked = order[start : start + BATCH]
            built.optimizer.zero_grad()
            built.loss(built.model[depth:](inputs[picked]), labels[picked]).backward()
            built.optimizer.step()
        if place % 2 == 1:
            built.scheduler.step()
    torch.set_num_threads(threads)
    return {name: value.numpy() for name, value in built.model.state_dict().items()}


def check(cycle: Cycle) -> None:
    for trial in cycle.trials:
        assert trial.status == "finished", trial.traceback
        truth, found = plain(cycle, trial.trial_id), learned(cycle)[trial.trial_id]
        for name, value in found.items():
            np.testing.assert_array_equal(value, truth[name], err_msg=f"{trial.params} {name}")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))


@pytest.mark.extended
def test_a_campaign_with_schedules_equals_a_plain_loop(spark: SparkSession, tmp_path: Path) -> None:
    """All at once: members of one group come to other layers at other epochs, and groups are made anew there."""
    space = {"lr": [0.01], "schedule": list(SCHEDULES)}
    made = campaign(spark, tmp_path / "store", trainer_fn=scheduled, search_space=space, workspace_bytes=0)
    cycle = made.fit(frame(spark, *records(0, 60)))
    assert "3 of 4 configurations have a freezing schedule, and are planned by phases" in cycle.explain()
    assert "train whole" not in cycle.explain()
    # Of both phases' layers a record passes the trunk once.
    assert cycle.materialised.trunk_rows == 60
    assert cycle.materialised.bytes == 60 * 4 * (128 + 96)
    assert cycle.line.passes >= 60
    check(cycle)
    together = {(event.epoch, event.members) for event in cycle.outcome.events if event.kind == "train"}
    assert any(members > 1 for epoch, members in together if epoch == 0)
    again = made.fit(frame(spark, *records(60, 80)))
    assert again.materialised.trunk_rows == 20
    check(again)


@pytest.mark.slow
def test_warm_starts_and_clones_read_what_no_phase_frees(spark: SparkSession, tmp_path: Path) -> None:
    """What they begin with has learned where a schedule freezes: its layers on disk are not theirs."""
    settings = {"trainer_fn": scheduled, "search_space": {"lr": [0.01], "schedule": ["unfreezing"]}}
    made = campaign(spark, tmp_path / "warm", warm_start=True, **settings)
    made.fit(frame(spark, *records(0, 60)))
    cycle = made.fit(frame(spark, *records(60, 70)))
    assert all(trial.status == "finished" for trial in cycle.trials), cycle.trials[0].traceback
    # Layers 2 and 3 of the untrained trunk were never stored for it.
    assert cycle.materialised.bytes == 10 * 4 * 128


@pytest.mark.slow
def test_a_schedule_trains_on_copies(spark: SparkSession, tmp_path: Path) -> None:
    def same(record: dict[str, Any], _: np.random.Generator) -> dict[str, Any]:
        return record

    space = {"lr": [0.01], "schedule": ["unfreezing", "none"]}
    made = campaign(
        spark, tmp_path / "store", trainer_fn=scheduled, search_space=space, augmentation=Augmentation(same, 2)
    )
    cycle = made.fit(frame(spark, *records(0, 60)))
    assert cycle.materialised.trunk_rows > 60
    check(cycle)
