"""Runs whose workers are plain processes that train epochs together, and of which one is killed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark import cloudpickle

torch = pytest.importorskip("torch")

from double_network import DoubleNetwork
from plain_workers import FAULTS, PlainRun, prepare_rows

from optimizer.hybrids import HybridSettings, interleave_rows
from udfs.handlers import ModelTrainer, open_session
from udfs.hopper import Checkpoints
from udfs.node import CACHE_VARIABLE
from udfs.shards import load_shard
from udfs.training import initial_seed, row_order

if TYPE_CHECKING:
    from pathlib import Path

    from cerebro_spark.hopper import Trial
    from udfs.shards import PreparedData
    from udfs.store import Store

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the workers do not have this folder

BATCH = 8


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))


def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
    net = DoubleNetwork()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), batch_size=BATCH)


def hopped(prepared: PreparedData, session: Any, trial: Trial, epoch: int) -> None:
    """Train an epoch of a trial's visits, one shard after the other."""
    visits = trial.done(epoch)
    for place, partition in enumerate(visits):
        rows = load_shard(prepared, "train", partition)
        order = row_order(0, trial.trial_id, epoch, partition, rows.rows)
        session.train(rows, order, ends_epoch=place == len(visits) - 1)


def reduced(prepared: PreparedData, session: Any, trial: Trial, epoch: int) -> None:
    """Train an epoch on batches with the rows of all shards."""
    shards = [load_shard(prepared, "train", partition) for partition in prepared.partitions]
    orders = [row_order(0, trial.trial_id, epoch, place, shard.rows) for place, shard in enumerate(shards)]
    position = np.zeros(len(shards), int)
    for counts in interleave_rows([shard.rows for shard in shards], BATCH):
        picked = [order[at : at + count] for order, at, count in zip(orders, position, counts, strict=True)]
        position += counts
        inputs = np.concatenate([shard.inputs[0][rows] for shard, rows in zip(shards, picked, strict=True)])
        labels = np.concatenate([shard.labels[0][rows] for shard, rows in zip(shards, picked, strict=True)])
        session.trainer.optimizer.zero_grad()
        outputs = session.model(torch.from_numpy(inputs))
        torch.nn.functional.cross_entropy(outputs, torch.from_numpy(labels)).backward()
        session.trainer.optimizer.step()


def averaged(prepared: PreparedData, session: Any, trial: Trial, epoch: int) -> dict[str, Any]:
    """Return the mean of the weights of copies that train on a shard each."""
    state, copies = session.checkpoint(), []
    for partition in prepared.partitions:
        session.restore(state)
        rows = load_shard(prepared, "train", partition)
        session.train(rows, row_order(0, trial.trial_id, epoch, partition, rows.rows), ends_epoch=True)
        copies.append((rows.rows, {name: value.clone() for name, value in session.model.state_dict().items()}))
    total = sum(count for count, _ in copies)
    return {name: sum(count * state[name] for count, state in copies) / total for name in copies[0][1]}


def weights(prepared: PreparedData, trial: Trial) -> dict[str, Any]:
    """Read the weights of the last checkpoint in the store."""
    checkpoints = Checkpoints(prepared.store, "run")
    record = checkpoints.last(trial.trial_id)
    assert record is not None
    assert record.visits == tuple(trial.visits)
    session = open_session(trainer_fn, trial.params, 0)
    session.restore(checkpoints.read(trial.trial_id, record.version, record.digest))
    return session.model.state_dict()


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-9, atol=1e-9)


def test_an_epoch_of_all_reduce_and_one_of_averaging(store: Store, tmp_path: Path) -> None:
    prepared = prepare_rows(store, (40, 56))
    run = PlainRun(prepared, trainer_fn, tmp_path, hybrid=HybridSettings("all_reduce", averaging_from=1)).run()
    (trial,) = run.trials
    assert trial.visits == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert {(event.ranks, event.worker, event.partition) for event in run.events} == {(2, "w0", 0), (2, "w1", 1)}
    alone = open_session(trainer_fn, {}, initial_seed(0, trial.trial_id))
    reduced(prepared, alone, trial, 0)
    assert_same(weights(prepared, trial), averaged(prepared, alone, trial, 1))


def test_workers_measure_before_they_choose(store: Store, tmp_path: Path) -> None:
    prepared = prepare_rows(store, (40, 56))
    run = PlainRun(prepared, trainer_fn, tmp_path, hybrid=HybridSettings("auto"), epochs=1).run()
    (trial,) = run.trials
    assert trial.status == "finished"
    assert "1 configuration on 2 workers: " in trial.log.first
    ranks = {event.ranks for event in run.events}
    assert ranks == {1 if "2 workers: hop" in trial.log.first else 2}
    alone = open_session(trainer_fn, {}, initial_seed(0, trial.trial_id))
    (hopped if ranks == {1} else reduced)(prepared, alone, trial, 0)
    assert_same(weights(prepared, trial), alone.model.state_dict())


# The other phases run in `make test-all`.
QUICK = {"step", "averaging"}


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=() if fault in QUICK else pytest.mark.slow) for fault in FAULTS]
)
def test_a_killed_worker_ends_the_team_and_the_epoch_is_hopped(fault: str, store: Store, tmp_path: Path) -> None:
    prepared = prepare_rows(store, (40, 56))
    settings = HybridSettings("averaging", averaging_from=0) if fault == "averaging" else HybridSettings("all_reduce")
    run = PlainRun(prepared, trainer_fn, tmp_path, hybrid=settings, fault=fault).run()
    (trial,) = run.trials
    assert trial.status == "finished"
    assert trial.hopping == {0}
    assert {"killed", "ended"} <= run.seconds.keys()
    assert {event.ranks for event in run.events if event.epoch == 0} == {1}
    assert {event.ranks for event in run.events if event.epoch == 1} == {2}
    alone = open_session(trainer_fn, {}, initial_seed(0, trial.trial_id))
    hopped(prepared, alone, trial, 0)
    if fault == "averaging":
        expected = averaged(prepared, alone, trial, 1)
    else:
        reduced(prepared, alone, trial, 1)
        expected = alone.model.state_dict()
    assert_same(weights(prepared, trial), expected)
