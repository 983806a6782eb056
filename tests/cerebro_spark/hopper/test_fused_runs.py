"""Runs whose trials train in groups, on real Spark: each model is that of a plain loop over what it has visited."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pyspark import cloudpickle
from searches import FEATURES, adult

from cerebro_spark import GridSearch, ModelTrainer, SparkBackend, Store
from cerebro_spark.data import prepare_increment
from cerebro_spark.errors import RunError
from cerebro_spark.hopper import Group, RunContext, Trial
from cerebro_spark.tune._extension import WholeModels
from udfs.adaptation import FeatureReader, FeatureStore, column_names, input_specs
from udfs.handlers import open_adapted
from udfs.hopper import AdaptationSettings, Checkpoints
from udfs.shards import Tensors
from udfs.training import initial_seed, row_order

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

# The workers have no such module: its functions go to them by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

BATCH = 32


def trainer(params: dict[str, Any]) -> ModelTrainer:
    """A frozen layer that all have, and a head that draws and moves buffers."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        trunk = torch.nn.Linear(len(FEATURES), 16)
    trunk.requires_grad_(requires_grad=False)
    head = (torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.3), torch.nn.Linear(16, 2))
    net = torch.nn.Sequential(trunk, torch.nn.Tanh(), *head)
    if params["lr"] > 1:
        raise ValueError("too fast")
    solver = torch.optim.Adam([each for each in net.parameters() if each.requires_grad], lr=params["lr"])
    return ModelTrainer(
        model=net, optimizer=solver, loss=torch.nn.CrossEntropyLoss(), metrics=["accuracy"], batch_size=BATCH
    )


def cut(order: np.ndarray) -> list[np.ndarray]:
    return [order[start : start + BATCH] for start in range(0, len(order), BATCH)]


@dataclass(frozen=True)
class Fused(WholeModels):
    """A search whose trials train together."""

    changes: dict[str, Any] = field(default_factory=dict)

    def extend(self, context: RunContext) -> RunContext:
        return replace(context, **self.changes)


class All:
    """Everybody in one group."""

    def __init__(self, loads: tuple[str, ...]) -> None:
        self.loads = loads

    def groups(self, trials: Sequence[Trial]) -> list[Group]:
        return [Group(tuple(trials), self.loads)]

    def record_failure(self, group: Group, why: str) -> None:
        """Do nothing."""


@pytest.mark.slow
def test_two_workers_train_a_group_as_a_plain_loop_does(spark: SparkSession, tmp_path: Path) -> None:
    store = Store.from_uri(str(tmp_path))
    table = adult(spark, 400).selectExpr("*", "row_number() over (order by age, hours_per_week, capital_gain) as id")
    data = prepare_increment(
        table,
        store,
        name="growing",
        id_column="id",
        feature_columns=FEATURES,
        label_columns=["label"],
        num_shards=2,
        seed=5,
        previous=None,
    )
    inputs, columns = tuple(input_specs(data)), tuple(column_names(data))

    def opened(trial_id: str, params: dict[str, Any]) -> Any:
        return open_adapted(trainer, params, initial_seed(5, trial_id), inputs=inputs, columns=columns)

    graph = opened("c000", {"lr": 0.1}).graph
    loads = tuple(graph.expression(name) for name in graph.inputs)
    features = FeatureStore(store, "campaign")
    settings = AdaptationSettings(features, inputs, columns, batch_size=BATCH)
    search = GridSearch(
        backend=SparkBackend(spark, num_workers=2, threads=1),
        store=store,
        trainer_fn=trainer,
        feature_columns=FEATURES,
        label_columns=["label"],
        metric="accuracy",
        progress=False,
        seed=5,
        search_space={"lr": [0.1, 0.01, 2.0, 0.001]},
        num_epochs=2,
    )
    found = search.extended(Fused(changes={"grouping": All(loads), "adaptation": settings})).fit(data)
    trials = {trial.trial_id: trial for trial in found._trials}
    assert sorted(trial.status for trial in trials.values()) == ["finished"] * 3 + ["raised"]
    units = {(event.kind, event.epoch, event.partition) for event in found.outcome.events}
    assert len(units) == 8
    assert len(found.outcome.events) == 3 * 8, "three members, two shards, two epochs, and validation"
    assert {event.members for event in found.outcome.events} == {3}
    reader = FeatureReader(features, data, batch_size=BATCH)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for trial in trials.values():
        if trial.failed:
            continue
        model = opened(trial.trial_id, trial.params)
        (feed,) = model.feeds
        for place, (epoch, partition) in enumerate(trial.visits):
            rows = reader.rows("train", partition, loads, [model])
            order = row_order(5, "", epoch, partition, rows.rows)
            # In the batches of training: the bits of the frozen layer depend on them.
            fed = [model.trunk({model.graph.inputs[0]: rows.inputs[0][picked]}, [feed])[feed] for picked in cut(order)]
            tensors = Tensors((np.concatenate(fed),), tuple(label[order] for label in rows.labels), rows.rows)
            model.session.train(tensors, np.arange(rows.rows), ends_epoch=place % 2 == 1)
        record = Checkpoints(store, found.run_id).last(trial.trial_id)
        assert record is not None
        assert Checkpoints(store, found.run_id).read(record.trial_id, record.version, record.digest) == (
            model.session.checkpoint()
        )
    torch.set_num_threads(threads)
    with pytest.raises(RunError, match="trained configurations in groups, and a replay trains them one by one"):
        found.replay(backend=search.backend)
