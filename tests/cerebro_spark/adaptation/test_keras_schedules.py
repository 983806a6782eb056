"""Freezing schedules of Keras on real Spark: in a campaign planned by phases, in a search interrupted and replayed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

keras = pytest.importorskip("keras")
pytest.importorskip("tensorflow")

from campaigns import SLOW_WORKER
from pyspark import cloudpickle
from searches import disk_full_after

from cerebro_spark import Adaptation, GridSearch, ModelTrainer, Selection, SparkBackend
from cerebro_spark.errors import RunError
from udfs.handlers.keras._modes import unfused
from udfs.hopper import Checkpoints
from udfs.node import CACHE_VARIABLE
from udfs.packing import unpack
from udfs.shards import load_shard
from udfs.training import initial_seed, row_order

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from udfs.store import Store

cloudpickle.register_pickle_by_value(sys.modules[__name__])

WIDE, NARROW, CLASSES, BATCH, EPOCHS, SEED = 32, 16, 3, 16, 3, 5

# Up to which of the layers all is frozen, and by epoch how many layers that is, and how many are read from disk.
SCHEDULES: dict[str, dict[int, str | None]] = {
    "unfreezing": {0: "second", 1: "first"},
    "freezing": {0: "first", 2: "second"},
    "none": {},
}
FROZEN = {"unfreezing": (4, 2, 2), "freezing": (2, 2, 4), "none": (0, 0, 0)}
READ = {"unfreezing": (4, 2, 2), "freezing": (2, 2, 2), "none": (0, 0, 0)}


def trainer(params: dict[str, Any]) -> ModelTrainer:
    """Two layers that are the same in every process, each with a norm above it, and a head that a trial draws."""
    layers, drawn = keras.layers, keras.initializers.GlorotUniform
    model = keras.Sequential(
        [
            keras.Input((WIDE,)),
            layers.Dense(NARROW, activation="relu", kernel_initializer=drawn(seed=0), name="low"),
            layers.BatchNormalization(name="first"),
            layers.Dense(8, activation="relu", kernel_initializer=drawn(seed=1), name="middle"),
            layers.BatchNormalization(name="second"),
            layers.Dense(8, activation="relu", name="high"),
            layers.Dropout(0.3, name="drop"),
            layers.Dense(CLASSES, name="head"),
        ]
    )
    return ModelTrainer(
        model=model,
        optimizer=keras.optimizers.Adam(params["lr"]),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        batch_size=BATCH,
        epochs=EPOCHS,
        freeze_until=SCHEDULES[params["schedule"]],
    )


def frame(spark: SparkSession, rows: int) -> DataFrame:
    drawn = np.random.default_rng(0).normal(size=(rows, WIDE))
    labelled = zip(range(rows), drawn.tolist(), drawn[:, :CLASSES].argmax(-1).tolist(), strict=True)
    return spark.createDataFrame(list(labelled), "id long, x array<double>, y int")


def usual(spark: SparkSession, **settings: Any) -> dict[str, Any]:
    common = {
        "backend": SparkBackend(spark, num_workers=2, threads=1),
        "trainer_fn": trainer,
        "feature_columns": ["x"],
        "label_columns": ["y"],
        "metric": "accuracy",
        "progress": False,
        "seed": SEED,
    }
    return common | settings


def check(found: Selection, *, read: dict[str, tuple[int, ...]] | None = None) -> None:
    """Compare what the store has with a loop of Keras alone; ``read`` are the layers on disk that a campaign reads."""
    kept = Checkpoints(found.prepared.store, found.run_id)
    for trial in found.trials:
        assert trial.status == "finished", trial.traceback
        record = kept.last(trial.trial_id)
        assert record is not None
        state = unpack(kept.read(trial.trial_id, record.version, record.digest), lambda array, _: array)
        config = trial.trial_id if read is None else ""
        depths = (0,) * EPOCHS if read is None else read[trial.params["schedule"]]
        model, slots = plain(found, trial, config, depths, everything=read is None)
        for own, truth in ((state["model"], model), (state["optimizer"], slots)):
            assert len(own) == len(truth)
            for place, (value, expected) in enumerate(zip(own, truth, strict=True)):
                np.testing.assert_array_equal(value, expected, err_msg=f"{trial.params} {place}")


def plain(
    found: Selection, trial: Any, config: str, read: tuple[int, ...], *, everything: bool
) -> tuple[list[Any], list[Any]]:
    """Switch ``trainable`` as an epoch begins; what is read are layers of the untrained model."""
    keras.utils.set_random_seed(initial_seed(SEED, trial.trial_id))
    made = trainer(trial.params)
    model, optimizer = made.model, made.optimizer
    optimizer.build(model.trainable_variables)
    if everything:
        # A session's model is compiled, and has metrics.
        model.compile(optimizer=optimizer, loss=made.loss, jit_compile=False)
    held = [(variable, variable.numpy()) for variable in model.variables]
    parts = {depth: halves(model, depth) for depth in set(read)}
    stored = {
        (depth, partition): features(found, partition, below)
        for depth, (below, _) in parts.items()
        for partition in (0, 1)
    }
    begun = -1
    for epoch, partition in trial.visits:
        _, network = parts[read[epoch]]
        if epoch != begun:
            begun = epoch
            for place, layer in enumerate(model.layers):
                layer.trainable = place >= FROZEN[trial.params["schedule"]][epoch]
            network.compile(optimizer=optimizer, loss=made.loss, jit_compile=False)
        rows, labels = stored[read[epoch], partition]
        order = row_order(SEED, config, epoch, partition, len(labels))
        for at in range(0, len(order), BATCH):
            picked = order[at : at + BATCH]
            network.train_on_batch(rows[picked], labels[picked])
    for layer in model.layers:
        layer.trainable = True
    changed = [
        variable.numpy()
        for variable, before in held
        if everything or variable.trainable or not np.array_equal(variable.numpy(), before)
    ]
    return changed, [variable.numpy() for variable in optimizer.variables]


def halves(model: Any, depth: int) -> tuple[Any, Any]:
    """Cut a model above so many layers."""
    if not depth:
        return None, model
    cut = model.layers[depth - 1].output
    x = given = keras.Input(cut.shape[1:])
    for layer in model.layers[depth:]:
        x = layer(x)
    return keras.Model(model.inputs[0], cut), keras.Model(given, x)


def features(found: Selection, partition: int, below: Any) -> tuple[np.ndarray, np.ndarray]:
    data = load_shard(found.prepared, "train", partition)
    rows = data.inputs[0]
    if below is not None:
        rows = np.concatenate([below(rows[at : at + BATCH]) for at in range(0, len(rows), BATCH)])
    return rows, data.labels[0]


@pytest.mark.extended
def test_a_campaign_is_planned_by_phases_and_equals_a_plain_loop(
    spark: SparkSession, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    campaign = Adaptation(
        **usual(spark, search_space={"lr": [0.01], "schedule": list(SCHEDULES)}),
        store=store,
        id_column="id",
        name="campaign",
        max_records=200,
        costs=SLOW_WORKER,
        workspace_bytes=0,
    )
    cycle = campaign.fit(frame(spark, 60))
    assert "2 of 3 configurations have a freezing schedule, and are planned by phases" in cycle.explain()
    assert cycle.materialised.trunk_rows == 60
    assert cycle.materialised.bytes == 60 * 4 * (NARROW + 8)
    # All that is stored is read, and nothing passes again.
    assert cycle.line.passes == 60
    with unfused():
        check(cycle, read=READ)


@pytest.mark.slow
def test_a_search_that_is_interrupted_resumed_and_replayed_equals_a_plain_loop(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = {"lr": [0.01], "schedule": ["unfreezing", "freezing"]}
    sought = GridSearch(**usual(spark, search_space=space, num_epochs=EPOCHS), store=store)
    with disk_full_after(3, monkeypatch), pytest.raises(RunError, match="the disk is full"):
        sought.fit(frame(spark, 60), run_id="run")
    backend = SparkBackend(spark, num_workers=2, threads=1)
    found = Selection.resume(store, "run", backend=backend, trainer_fn=trainer, progress=False)
    assert any(event.fetched_bytes for event in found.outcome.events), "nothing hopped"
    check(found)
    check(found.replay(backend=backend, progress=False))
