"""Campaigns that augment: an ordinary loop that draws the same, over corrected labels, changed records and faults."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from campaigns import BATCH, CLASSES, SEED, WIDE, campaign, frame, learned, records, trainer
from pyspark import cloudpickle
from searches import disk_full_after

from cerebro_spark import Augmentation, Store
from cerebro_spark.errors import AugmentationError, InvalidArgumentError
from udfs.adaptation import FeatureStore
from udfs.shards import Ledger, load_shard
from udfs.training import initial_seed, row_order

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from cerebro_spark.adaptation import Cycle

cloudpickle.register_pickle_by_value(sys.modules[__name__])

COPIES, EPOCHS = 2, 2
FIRST = records(0, 60)
# New records; a label that was wrong; a record that changed; one that comes again as it was.
SECOND = [*records(60, 80), (3, FIRST[3][1], (FIRST[3][2] + 1) % CLASSES), (5, [0.5] * WIDE, 1), FIRST[7]]


def noisy(record: dict[str, Any], generator: np.random.Generator) -> dict[str, Any]:
    return {"x": record["x"] + generator.normal(scale=0.3, size=WIDE).astype(np.float32)}


def drawn(rows: np.ndarray, ids: list[str], copy: int) -> torch.Tensor:
    made = [noisy({"x": row}, Augmentation.generator(SEED, one, copy))["x"] for one, row in zip(ids, rows, strict=True)]
    return torch.from_numpy(np.array(made, np.float32))


def plain(cycle: Cycle, trial_id: str) -> tuple[dict[str, np.ndarray], list[float]]:
    """Train the head on the trunk's outputs of what is drawn, each batch of labels ``BATCH`` records at a time."""
    trial = next(each for each in cycle.trials if each.trial_id == trial_id)
    data, depth = cycle.prepared, trial.params["layers"]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(initial_seed(SEED, trial_id))
    built = trainer(trial.params)
    trunk, head = built.model[:depth], built.model[depth:]
    head.train()
    losses, seen = [0.0] * EPOCHS, [0] * EPOCHS
    for place, (epoch, partition) in enumerate(trial.visits):
        shard, features = data.shard("train", partition), []
        brought = [number for number, one in enumerate(data.increments) if one.shard("train", partition) is not None]
        for number, part in zip(brought, data.parts(shard), strict=True):
            raw = load_shard(data.increments[number].data, "train", partition).inputs[0]
            ids, _ = Ledger(data.increments, "train", partition).records(number)
            copies = drawn(raw, ids, epoch % COPIES)
            with torch.no_grad():
                out = torch.cat([trunk(copies[start : start + BATCH]) for start in range(0, len(copies), BATCH)])
            features.append(out if part.keep is None else out[torch.from_numpy(part.keep)])
        inputs = torch.cat(features)
        labels = torch.from_numpy(load_shard(data, "train", partition).labels[0]).long()
        order = row_order(SEED, "", epoch, partition, len(labels))
        for start in range(0, len(order), BATCH):
            picked = order[start : start + BATCH]
            built.optimizer.zero_grad()
            loss = built.loss(head(inputs[picked]), labels[picked])
            loss.backward()
            built.optimizer.step()
            losses[epoch] += loss.item() * len(picked)
            seen[epoch] += len(picked)
        if place % 2 == 1:
            built.scheduler.step()
    torch.set_num_threads(threads)
    state = {name: value.numpy() for name, value in built.model.state_dict().items()}
    return state, [loss / rows for loss, rows in zip(losses, seen, strict=True)]


def check(cycle: Cycle) -> None:
    found = learned(cycle)
    for trial in cycle.trials:
        assert trial.status == "finished", trial.traceback
        truth, losses = plain(cycle, trial.trial_id)
        for name, value in found[trial.trial_id].items():
            np.testing.assert_array_equal(value, truth[name], err_msg=f"{trial.trial_id} {name}")
        np.testing.assert_allclose([epoch["loss"] for epoch in trial.history], losses, rtol=1e-5)


def rows(cycle: Cycle, split: str, increment: int) -> int:
    return sum(one.rows for one in cycle.prepared.increments[increment].data.shards if one.split == split)


@pytest.mark.extended
def test_cycles_equal_a_plain_loop_that_draws_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in another process's place, after a run that stopped, with twice the records, and after a pool is ranked."""
    store = Store.from_uri(str(tmp_path))
    settings = {"augmentation": Augmentation(noisy, COPIES), "max_records": 60, "metric": "loss"}
    made = campaign(spark, store, **settings)
    first = made.fit(frame(spark, *FIRST))
    assert first.plan is not None
    assert len(first.plan.materialised) == 2
    trained, held = (rows(first, split, 0) for split in ("train", "validation"))
    assert trained + held == 60
    assert first.materialised.trunk_rows == COPIES * trained + held
    assert first.plan.materialised_bytes == 4 * (128 + 96) * (60 + (COPIES - 1) * max(45, trained))
    check(first)
    # Another process takes the campaign over, the records double, and the run stops.
    with disk_full_after(1, monkeypatch), pytest.raises(Exception, match="the disk is full"):
        campaign(spark, store, **settings).fit(frame(spark, *SECOND))
    again = campaign(spark, store, **settings)
    second = again.resume()
    check(second)
    assert [line.records for line in second.cycles] == [80]
    assert second.materialised.trunk_rows == 0
    assert second.plan is not None
    assert second.plan.records == 120
    pool = frame(spark, *records(200, 230)).drop("y")
    for how in ("least_confidence", "diversity"):
        scored = again.score(pool, how, limit=10).collect()
        assert len(scored) == 10
        assert all(np.isfinite(row["score"]) for row in scored)
    # Records of the pool that are for training pass once more, as copies: those held out do not.
    third = again.fit(frame(spark, *records(200, 230)))
    check(third)


@pytest.mark.slow
def test_diversity_is_of_the_records_and_not_of_their_copies(spark: SparkSession, tmp_path: Path) -> None:
    """A pool record that equals a labelled one is at no distance from it, however far off its copies are."""
    far = Augmentation(lambda record, generator: {"x": record["x"] + np.float32(50 * generator.normal())}, 1)
    made = campaign(
        spark, tmp_path, augmentation=far, search_space={"lr": [0.0], "layers": [4]}, metric="loss", test_fraction=0.2
    )
    made.fit(frame(spark, *FIRST))
    twins = [(number + 1000, x, y) for number, x, y in FIRST]
    scored = made.score(frame(spark, *twins, (5000, [9.0] * WIDE, 0)).drop("y"), "diversity", limit=61).collect()
    assert scored[0]["id"] == 5000
    assert max(row["score"] for row in scored[1:]) < 1e-4


@pytest.mark.extended
def test_a_record_that_cannot_be_augmented_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """One that is in no sample; the campaign stays as it was."""

    def odd(record: dict[str, Any], _: np.random.Generator) -> dict[str, Any]:
        if record["x"][0] == np.float32(77):
            raise ValueError("too bright")
        return record

    made = campaign(spark, tmp_path, augmentation=Augmentation(odd, 2), search_space={"lr": [0.01], "layers": [2]})
    spoiled = [(number, [77.0] + [0.0] * (WIDE - 1), 1) for number in range(9000, 9010)]
    made.fit(frame(spark, *FIRST))
    with pytest.raises(
        AugmentationError, match=r"record \d+, copy [01]: augmentation must not raise, got ValueError: too bright"
    ):
        made.fit(frame(spark, *spoiled))
    assert len(made.run_ids) == 1
    assert made.fit(frame(spark, *records(60, 70))).trials[0].status == "finished"


@pytest.mark.extended
def test_what_is_wrong_is_said_before_anything_is_computed(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"augmentation must be None or an Augmentation\(fn, copies=4\)"):
        campaign(spark, tmp_path, augmentation=noisy)
    made = campaign(spark, tmp_path, augmentation=Augmentation(lambda record, _: {"x": record["x"][:2]}, 2))
    with pytest.raises(AugmentationError, match=r"record \d+, copy 0: .* column 'x' as .*got float32\[2\]"):
        made.fit(frame(spark, *FIRST))
    assert not made.run_ids
    assert not FeatureStore(made.store, made.name).expressions()


@pytest.mark.slow
def test_the_planner_counts_all_copies(spark: SparkSession, tmp_path: Path) -> None:
    """Both layers of the records would fit; of their copies the smaller one does, and the numbers are the same."""
    room = 4 * (128 + 96) * 60
    made = campaign(
        spark,
        tmp_path,
        augmentation=Augmentation(noisy, COPIES),
        max_records=60,
        disk_bytes=room,
        search_space={"lr": [0.01], "layers": [2, 4]},
    )
    cycle = made.fit(frame(spark, *FIRST))
    assert cycle.plan is not None
    assert len(cycle.plan.materialised) == 1
    assert FeatureStore(made.store, made.name).used_bytes() <= room
    for trial in cycle.trials:
        assert trial.status == "finished", trial.traceback
        truth, _ = plain(cycle, trial.trial_id)
        for name, value in learned(cycle)[trial.trial_id].items():
            np.testing.assert_allclose(value, truth[name], atol=1e-3, err_msg=f"{trial.trial_id} {name}")
