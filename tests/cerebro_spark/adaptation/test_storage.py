"""What a campaign keeps on disk: as it grows, in half the bytes, and after faults."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from campaigns import (
    HIDDEN,
    INNER,
    NARROW,
    campaign,
    check_against_plain_loop,
    deadly,
    frame,
    looped,
    records,
    trainer,
)
from photographs import encode, photograph
from pyspark import cloudpickle
from sessions import CONNECT

from cerebro_spark.adaptation._candidates import Candidates
from udfs.adaptation import FeatureStore, segments_of
from udfs.node import CACHE_VARIABLE
from udfs.shards import GrowingData, load_prepared

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from cerebro_spark import ModelTrainer
    from cerebro_spark.adaptation import Cycle
    from udfs.store import Store

cloudpickle.register_pickle_by_value(sys.modules[__name__])

FIRST = records(0, 60)
TORCH = f"torch {version('torch')}"
ONE = {"lr": [0.01], "layers": [4]}
BOTH = {"lr": [0.01], "layers": [2, 4]}
SHALLOW, DEEP = 4 * INNER, 4 * NARROW


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))


def stored_files(store: Store) -> list[Path]:
    return sorted(Path(store.path("features", "campaign")).rglob("*.bin"))


def check_files(store: Store, cycle: Cycle, widths: list[int], made_with: str = TORCH) -> None:
    """Each layer has a complete file for each batch and shard, as its digest says; nothing else is there."""
    features = FeatureStore(store, "campaign", made_with=made_with)
    assert isinstance(cycle.prepared, GrowingData)
    segments = segments_of(cycle.prepared)
    assert len(stored_files(store)) == len(widths) * len(segments)
    assert features.used_bytes() == sum(widths) * sum(segment.rows for segment in segments)
    opened = [features.open(key, segment) for key in features.expressions() for segment in segments]
    assert len(opened) == len(stored_files(store))


def test_more_records_than_were_planned_for(spark: SparkSession, store: Store) -> None:
    """What is planned for doubles; a new layer is made of the one on disk, and a useless one goes.

    The disk has room for 2000, 1000 and 500 bytes of each of 60, 120 and 240 records.
    """
    settings: dict[str, Any] = {"max_records": 60, "disk_bytes": 120_000}
    first = campaign(spark, store, search_space={"lr": [0.01], "layers": [2]}, **settings).fit(frame(spark, *FIRST))
    check_files(store, first, [SHALLOW])
    made = campaign(spark, store, search_space=BOTH, **settings)
    second = made.fit(frame(spark, *records(60, 80)))
    done = second.materialised
    assert (done.rows, done.trunk_rows) == (80, 20)
    check_files(store, second, [SHALLOW, DEEP])
    third = made.fit(frame(spark, *records(80, 130)))
    done = third.materialised
    assert (done.rows, done.trunk_rows) == (50, 50)
    check_files(store, third, [DEEP])
    assert "planned for 240 records" in made.explain()
    for cycle in (first, second):
        check_against_plain_loop(cycle)


def test_a_flipped_byte_is_found_made_again_and_counted(spark: SparkSession, store: Store) -> None:
    made = campaign(spark, store, search_space=ONE)
    first = made.fit(frame(spark, *FIRST))
    assert first.remade == 0
    path = next(path for path in stored_files(store) if path.name.startswith("train"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    second = made.fit(frame(spark, *records(60, 64)))
    assert second.remade == second.facts["remade_files"] == 1
    assert "1 damaged files were made again" in second.explain()
    assert second.materialised.trunk_rows == 4
    check_against_plain_loop(second)
    check_files(store, second, [DEEP])


@pytest.mark.extended
def test_bfloat16_halves_the_bytes_and_hardly_moves_the_losses(spark: SparkSession, store: Store) -> None:
    cycle = campaign(spark, store, search_space=BOTH, storage_dtype="bfloat16").fit(frame(spark, *FIRST))
    assert cycle.materialised.bytes == 60 * (SHALLOW + DEEP) // 2
    assert cycle.plan is not None
    assert cycle.plan.materialised_bytes == 500 * (SHALLOW + DEEP) // 2
    # Seven bits and a rounded one: half of the last bit of numbers of at most 1.
    error = cycle.materialised.storage_error
    assert 0 < error.relative <= 2**-8
    assert 0 < error.absolute <= 2**-9
    for event in cycle.outcome.events:
        shard = cycle.prepared.shard("train" if event.kind == "train" else "validation", event.partition)
        assert shard is not None
        assert event.read_bytes in {shard.rows * SHALLOW / 2, shard.rows * DEEP / 2, shard.rows * (SHALLOW + DEEP) / 4}
    for trial in cycle.trials:
        _, losses = looped(cycle, trial.trial_id)
        found = [epoch["loss"] for epoch in trial.history]
        np.testing.assert_allclose(found, losses, rtol=0.02)
        assert found != losses


@pytest.mark.slow
def test_a_worker_that_is_killed_as_it_materialises(spark: SparkSession, store: Store, tmp_path: Path) -> None:
    """Spark on one machine does not try again: its user does, with the same batch."""
    made = campaign(spark, store, search_space=BOTH, trainer_fn=deadly(str(tmp_path / "mark")))
    with pytest.raises(Exception, match=r"crashed|exited|EOF|lost"):
        made.fit(frame(spark, *FIRST))
    assert (tmp_path / "mark").exists()
    assert made.run_ids == campaign(spark, store).run_ids == ()
    cycle = made.fit(frame(spark, *FIRST))
    check_files(store, cycle, [SHALLOW, DEEP])
    check_against_plain_loop(cycle)


KILLED_DRIVER = """
import os, sys
sys.path[:0] = {paths!r}
from sessions import new_session
from campaigns import campaign, deadly, frame, records
spark = new_session()
made = campaign(spark, {uri!r}, search_space={space!r}, trainer_fn=deadly({mark!r}, os.getpid()))
made.fit(frame(spark, *records(0, 60)))
"""


@pytest.mark.slow
@pytest.mark.skipif(CONNECT, reason="the other process is a classic one")
def test_a_driver_that_is_killed_as_it_materialises_is_resumed(
    spark: SparkSession, store: Store, tmp_path: Path
) -> None:
    code = KILLED_DRIVER.format(paths=sys.path, uri=store.uri, space=BOTH, mark=str(tmp_path / "mark"))
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300)
    assert killed.returncode == -9, killed.stderr[-2000:]
    made = campaign(spark, store, search_space=BOTH)
    (run,) = made.run_ids
    data = load_prepared(store, run)
    assert isinstance(data, GrowingData)
    features = FeatureStore(store, "campaign", made_with=TORCH)
    left = {segment for key in features.expressions() for segment in features.missing(key, segments_of(data))}
    assert left
    cycle = made.resume()
    assert cycle.run_id == run
    assert cycle.materialised.trunk_rows == sum(segment.rows for segment in left)
    check_files(store, cycle, [SHALLOW, DEEP])
    check_against_plain_loop(cycle)


@pytest.mark.slow
def test_a_disk_with_room_for_one_layer_of_two(
    spark: SparkSession,
    store: Store,
    small_disk: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The campaign goes on with the layers that fit."""
    monkeypatch.setattr("cerebro_spark.adaptation._stored_layers._LEAST_DISK", 1)
    (tmp_path / "store").mkdir(exist_ok=True)
    (tmp_path / "store" / "features").symlink_to(small_disk("64k"))
    cycle = campaign(spark, store, search_space=BOTH).fit(frame(spark, *records(0, 90)))
    assert cycle.plan is not None
    assert len(cycle.plan.materialised) == 1
    check_files(store, cycle, [DEEP])
    assert [trial.status for trial in cycle.trials] == ["finished"] * 2


@pytest.mark.slow
def test_what_another_version_of_torch_has_made_is_not_taken(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert campaign(spark, store, search_space=ONE).fit(frame(spark, *FIRST)).materialised.trunk_rows == 60
    monkeypatch.setattr(Candidates, "made_with", "torch 1.0")
    cycle = campaign(spark, store, search_space=ONE).fit(frame(spark, *records(60, 61)))
    assert cycle.materialised.trunk_rows == 61
    check_files(store, cycle, [DEEP], "torch 1.0")


# Other kinds of data --------------------------------------------------------------------------------------------------


@pytest.mark.extended
def test_rows_with_weights(spark: SparkSession, store: Store) -> None:
    rows = [(*row, 0.5 + row[0] % 4) for row in FIRST]
    batch = spark.createDataFrame(rows, "id long, x array<double>, y int, w double")
    cycle = campaign(spark, store, weight_column="w").fit(batch)
    assert any(event.members > 1 for event in cycle.outcome.events)
    assert cycle.materialised.trunk_rows == 60
    check_against_plain_loop(cycle)


def image_trainer(params: dict[str, Any]) -> ModelTrainer:
    """A convolution of the same weights in every process, in place of the trunk."""
    drawn = torch.random.get_rng_state()
    torch.manual_seed(0)
    frozen = [torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.AvgPool2d(2)]
    torch.random.set_rng_state(drawn)
    net = torch.nn.Sequential(
        *[layer.requires_grad_(requires_grad=False) for layer in frozen],
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 3 * 3, HIDDEN),
        torch.nn.ReLU(),
        torch.nn.Linear(HIDDEN, 2),
    )
    optimizer = torch.optim.Adam([weight for weight in net.parameters() if weight.requires_grad], lr=params["lr"])
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    return replace(trainer(params), model=net, optimizer=optimizer, scheduler=scheduler)


@pytest.mark.extended
def test_images(spark: SparkSession, store: Store) -> None:
    pixels = photograph("china")
    rows = [(n, bytearray(encode(pixels.crop((n, n, n + 40, n + 40)), "PNG")), n % 2) for n in range(50)]
    space = {"lr": [0.01, 0.001], "layers": [3]}
    made = campaign(spark, store, search_space=space, trainer_fn=image_trainer, feature_columns=["image"], image_size=8)
    cycles = [made.fit(spark.createDataFrame(part, "id int, image binary, y int")) for part in (rows[:40], rows[40:])]
    assert [cycle.materialised.trunk_rows for cycle in cycles] == [40, 10]
    for cycle in cycles:
        for trial in cycle.trials:
            assert trial.status == "finished", trial.traceback
            # A convolution's bits follow from how its memory is laid out: the first losses agree.
            _, losses = looped(cycle, trial.trial_id, build=image_trainer)
            assert abs(trial.history[0]["loss"] - losses[0]) < 1e-4
