"""Searches on the census data, small enough for a test."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from pyspark import cloudpickle
from real_inputs import adult_path

from cerebro_spark import GridSearch, ModelTrainer, NetworkEstimator, PreparedData, Selection, SparkBackend, Store
from cerebro_spark.hopper import Journal
from udfs.handlers.torch._session import as_tensor
from udfs.hopper import Checkpoints
from udfs.packing import unpack
from udfs.shards import load_shard
from udfs.training import initial_seed, row_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy as np
    import pytest
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "BATCH",
    "FEATURES",
    "adult",
    "common",
    "disk_full_after",
    "estimator",
    "network",
    "plain_loop",
    "search",
    "states",
    "trainer",
]

# The workers have no such module: its functions go to them by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

FEATURES = ["age", "educational_num", "capital_gain", "capital_loss", "hours_per_week"]
BATCH = 64


def adult(spark: SparkSession, rows: int) -> DataFrame:
    table = pd.read_parquet(adult_path()).head(rows)
    table.columns = [name.replace("-", "_") for name in table.columns]
    numbers = table[FEATURES].astype("float64")
    scaled = (numbers - numbers.mean()) / numbers.std()
    return spark.createDataFrame(scaled.assign(label=table["income"].str.contains(">50K").astype("int64")))


def network(hidden: int) -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(len(FEATURES), hidden),
        torch.nn.BatchNorm1d(hidden),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.3),
        torch.nn.Linear(hidden, 2),
    )


def trainer(params: dict[str, Any]) -> ModelTrainer:
    net = network(params["hidden"])
    optimizer = torch.optim.Adam(net.parameters(), lr=params["lr"])
    return ModelTrainer(
        model=net,
        optimizer=optimizer,
        loss=torch.nn.CrossEntropyLoss(),
        metrics=["accuracy", "auc"],
        batch_size=BATCH,
        scheduler=torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9),
    )


def common(spark: SparkSession, store: Store | Path | str, **others: Any) -> dict[str, Any]:
    """Settings of any search."""
    usual = {
        "backend": SparkBackend(spark, num_workers=2, threads=1),
        "store": store if isinstance(store, Store) else Store.from_uri(str(store)),
        "trainer_fn": trainer,
        "feature_columns": FEATURES,
        "label_columns": ["label"],
        "metric": "accuracy",
        "progress": False,
        "seed": 5,
    }
    return usual | others


def search(spark: SparkSession, store: Store | Path | str, **settings: Any) -> GridSearch:
    grid = {"search_space": {"lr": [0.01, 0.001], "hidden": [8, 24]}, "num_epochs": 2}
    return GridSearch(**common(spark, store, **grid | settings))


def estimator(spark: SparkSession, store: Store | Path | str, **settings: Any) -> NetworkEstimator:
    # The other schedules follow measured times, and two runs may differ.
    usual = {"hyperparameters": {"lr": 0.01, "hidden": 4}, "num_epochs": 1, "metric": "loss", "schedule": "fixed"}
    return NetworkEstimator(**common(spark, store, **usual | settings))


@contextmanager
def disk_full_after(orders: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the store refuse a run's next decisions once it has those of so many calls: the run stops."""
    write = Journal.order

    def full(journal: Journal, exchange: Any) -> None:
        if len(journal.orders()) == orders:
            raise OSError("the disk is full")
        write(journal, exchange)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "order", full)
        yield


def plain_loop(
    prepared: PreparedData,
    params: dict[str, Any],
    config: str,
    visits: Any,
    seed: int,
    frozen: Sequence[Sequence[int]] = (),
) -> dict[str, np.ndarray]:
    """An ordinary loop over the shards in an order, on one thread, with nothing of ours but data and seeds.

    ``frozen`` has the layers that do not learn, by epoch.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(initial_seed(seed, config))
    net = network(params["hidden"])
    optimizer = torch.optim.Adam(net.parameters(), lr=params["lr"])
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    loss_of = torch.nn.CrossEntropyLoss()
    losses_of = torch.nn.CrossEntropyLoss(reduction="none")
    for place, (epoch, partition) in enumerate(visits):
        net.train().requires_grad_()
        for layer in frozen[epoch] if frozen else ():
            net.get_submodule(str(layer)).eval().requires_grad_(requires_grad=False)
        data = load_shard(prepared, "train", partition)
        order = row_order(seed, config, epoch, partition, data.rows)
        for start in range(0, data.rows, BATCH):
            picked = order[start : start + BATCH]
            optimizer.zero_grad()
            outputs, labels = net(torch.from_numpy(data.inputs[0][picked])), torch.from_numpy(data.labels[0][picked])
            if data.weights is None:
                loss = loss_of(outputs, labels)
            else:
                exact = data.weights[picked].astype("float64")
                weights = torch.from_numpy((exact * (len(exact) / exact.sum())).astype("float32"))
                loss = (weights * losses_of(outputs, labels)).sum() / weights.sum()
            loss.backward()
            optimizer.step()
        if place % len(prepared.partitions) == len(prepared.partitions) - 1:
            scheduler.step()
    torch.set_num_threads(threads)
    return {name: value.numpy() for name, value in net.state_dict().items()}


def states(found: Selection) -> dict[str, dict[str, np.ndarray]]:
    """The weights of every configuration that was trained, by id."""
    kept = Checkpoints(found.prepared.store, found.run_id)
    read = {}
    for trial in found.trials:
        record = kept.last(trial.trial_id)
        if record is not None:
            state = unpack(kept.read(trial.trial_id, record.version, record.digest), as_tensor)
            read[trial.trial_id] = {name: value.numpy() for name, value in state["model"].items()}
    return read
