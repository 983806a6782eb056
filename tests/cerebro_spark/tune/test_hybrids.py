"""Searches with fewer configurations than workers, whose epochs the workers train together."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark import cloudpickle

torch = pytest.importorskip("torch")

from double_network import DoubleNetwork

from cerebro_spark import GridSearch, ModelTrainer, Selection, SparkBackend, Store
from cerebro_spark.errors import InvalidArgumentError, RunError
from optimizer.hybrids import interleave_rows
from udfs.handlers import open_session
from udfs.hopper import Checkpoints
from udfs.shards import load_shard
from udfs.training import initial_seed, row_order

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Spark's workers do not have this folder

BATCH, ROWS, SEED = 16, 300, 3


def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
    net = DoubleNetwork()
    optimizer = torch.optim.Adam(net.parameters(), lr=params["lr"])
    loss = torch.nn.CrossEntropyLoss()
    return ModelTrainer(model=net, optimizer=optimizer, loss=loss, metrics=["accuracy"], batch_size=BATCH)


def search(spark: SparkSession, folder: Path, **settings: Any) -> GridSearch:
    defaults = {"trainer_fn": trainer_fn, "search_space": {"lr": [0.05]}, "num_epochs": 2}
    return GridSearch(
        backend=SparkBackend(spark, num_workers=settings.pop("num_workers", 2), threads=1),
        store=Store.from_uri(str(folder)),
        feature_columns=["a", "b", "c", "d"],
        label_columns=["label"],
        progress=False,
        seed=SEED,
        **defaults | settings,
    )


def table(spark: SparkSession) -> DataFrame:
    draw = np.random.default_rng(0)
    rows = [(*map(float, values), int(values.sum() > 0)) for values in draw.normal(size=(ROWS, 4))]
    return spark.createDataFrame(rows, "a double, b double, c double, d double, label int")


def trained(selection: Selection, trial: Any) -> Any:
    """Open the last state of a trial in the store."""
    session = open_session(trainer_fn, trial.params, 0)
    checkpoints = Checkpoints(selection.prepared.store, selection.run_id)
    record = max(checkpoints.records(trial.trial_id), key=lambda each: each.version)
    session.restore(checkpoints.read(trial.trial_id, record.version, record.digest))
    return session


def plain_all_reduce(session: Any, prepared: Any, trial: Any, epoch: int) -> None:
    """Train an epoch in this process, on batches with the rows of all shards."""
    shards = [load_shard(prepared, "train", partition) for partition in prepared.partitions]
    orders = [row_order(SEED, trial.trial_id, epoch, place, shard.rows) for place, shard in enumerate(shards)]
    position = np.zeros(len(shards), int)
    trainer = session.trainer
    session.model.train()
    for counts in interleave_rows([shard.rows for shard in shards], BATCH):
        picked = [order[at : at + count] for order, at, count in zip(orders, position, counts, strict=True)]
        position += counts
        inputs = np.concatenate([shard.inputs[0][rows] for shard, rows in zip(shards, picked, strict=True)])
        labels = np.concatenate([shard.labels[0][rows] for shard, rows in zip(shards, picked, strict=True)])
        trainer.optimizer.zero_grad()
        outputs = session.model(torch.from_numpy(inputs))
        torch.nn.functional.cross_entropy(outputs, torch.from_numpy(labels).long()).backward()
        trainer.optimizer.step()


def test_workers_that_share_the_epochs_train_what_a_plain_loop_does(spark: SparkSession, tmp_path: Path) -> None:
    one = search(spark, tmp_path, hybrid="all_reduce", averaging_from=1)
    prepared = one.prepare(table(spark))
    assert "averaging from epoch 2 on" in one.plan().notes[-1]
    selection = one.fit(prepared)
    (trial,) = selection.trials
    assert trial.status == "finished"
    assert list(trial.visits) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    units = [event for event in selection.outcome.events if event.kind == "train"]
    assert {event.ranks for event in units} == {2}
    assert {(event.epoch, event.partition) for event in units} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert len({event.worker for event in units}) == 2
    assert all(event.exchanged_bytes > 0 for event in units)
    assert "2 epochs on up to 2 workers together" in selection.explain()

    first = open_session(trainer_fn, trial.params, initial_seed(SEED, trial.trial_id))
    plain_all_reduce(first, prepared, trial, 0)
    state = first.checkpoint()
    copies = []
    for partition in prepared.partitions:
        copy = open_session(trainer_fn, trial.params, 0)
        copy.restore(state)
        shard = load_shard(prepared, "train", partition)
        copy.train(shard, row_order(SEED, trial.trial_id, 1, partition, shard.rows), ends_epoch=True)
        copies.append((shard.rows, copy.model.state_dict()))
    total = sum(rows for rows, _ in copies)
    result = trained(selection, trial)
    for name, value in result.model.state_dict().items():
        mean = sum(rows * state[name] for rows, state in copies) / total
        torch.testing.assert_close(value, mean, rtol=1e-9, atol=1e-9)
    with pytest.raises(RunError, match="on several workers together"):
        selection.replay(backend=one.backend)


def test_a_search_goes_on_after_its_shared_epochs(spark: SparkSession, tmp_path: Path) -> None:
    prepared = search(spark, tmp_path).prepare(table(spark))
    whole = search(spark, tmp_path, hybrid="all_reduce", num_epochs=2).fit(prepared)
    search(spark, tmp_path, hybrid="all_reduce", num_epochs=1).fit(prepared, run_id="parts")
    with pytest.raises(RunError, match="has hybrid='all_reduce', and this search hybrid='off'"):
        search(spark, tmp_path, num_epochs=2).resume("parts")
    backend = SparkBackend(spark, num_workers=2, threads=1)
    resumed = Selection.resume(prepared.store, "parts", backend=backend, trainer_fn=trainer_fn, num_epochs=2)
    assert [event.ranks for event in resumed.outcome.events if event.kind == "train"] == [2] * 4
    expected = trained(whole, whole.trials[0]).model.state_dict()
    for name, value in trained(resumed, resumed.trials[0]).model.state_dict().items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=0)


def test_settings_that_cannot_be_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="hybrid must be one of off, auto, all_reduce, averaging"):
        search(spark, tmp_path, hybrid="horovod")
    with pytest.raises(InvalidArgumentError, match="hybrid must be 'off' or 'auto' with one worker"):
        search(spark, tmp_path, hybrid="all_reduce", num_workers=1)
    with pytest.raises(InvalidArgumentError, match="averaging_from must be None where hybrid is 'off', got 1"):
        search(spark, tmp_path, averaging_from=1)
    with pytest.raises(InvalidArgumentError, match="where configurations train as a stack"):
        search(spark, tmp_path, hybrid="auto", stack="auto")


def test_a_loss_that_is_no_mean_is_refused_before_the_workers_start(spark: SparkSession, tmp_path: Path) -> None:
    def summed_fn(params: dict[str, Any]) -> ModelTrainer:
        net = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=params["lr"])
        return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(reduction="sum"))

    one = search(spark, tmp_path, hybrid="all_reduce", trainer_fn=summed_fn)
    with pytest.raises(InvalidArgumentError, match="loss must be a mean over rows"):
        one.fit(table(spark))
