"""Searches whose configurations of one architecture train as a stack."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark import cloudpickle

torch = pytest.importorskip("torch")

from cerebro_spark import GridSearch, ModelTrainer, SparkBackend, Store
from cerebro_spark.errors import InvalidArgumentError, RunError
from cerebro_spark.hopper import Group, StackedGroups, Trial
from udfs.handlers import open_session
from udfs.hopper import Checkpoints
from udfs.shards import load_shard
from udfs.training import initial_seed, row_order

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Spark's workers do not have this folder

BATCH, ROWS, SEED, DIVERGING = 16, 300, 3, 3e37


def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
    """A perceptron; ``width=0`` cannot be built, and ``optimizer="rmsprop"`` cannot be stacked."""
    width = params["width"]
    if not width:
        raise ValueError("no units")
    net = torch.nn.Sequential(
        torch.nn.Linear(4, width), torch.nn.Tanh(), torch.nn.Dropout(0.2), torch.nn.Linear(width, 2)
    )
    kind = torch.optim.RMSprop if params.get("optimizer") == "rmsprop" else torch.optim.Adam
    optimizer = kind(net.parameters(), lr=params["lr"])
    loss = torch.nn.CrossEntropyLoss()
    return ModelTrainer(model=net, optimizer=optimizer, loss=loss, metrics=["accuracy"], batch_size=BATCH)


def grid(spark: SparkSession, folder: Path, space: dict[str, Any], **settings: Any) -> GridSearch:
    return GridSearch(
        backend=SparkBackend(spark, num_workers=2, threads=1),
        store=Store.from_uri(str(folder)),
        trainer_fn=trainer_fn,
        search_space=space,
        num_epochs=2,
        feature_columns=["a", "b", "c", "d"],
        label_columns=["label"],
        progress=False,
        seed=SEED,
        **settings,
    )


def test_a_search_with_stacks_trains_what_a_plain_loop_does(spark: SparkSession, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    rows = [(*map(float, values), int(values.sum() > 0)) for values in draw.normal(size=(ROWS, 4))]
    data = spark.createDataFrame(rows, "a double, b double, c double, d double, label int")
    space = {"lr": [0.01, 0.02, DIVERGING, 0.03], "width": [4]}
    search = grid(spark, tmp_path, space, stack="auto")
    prepared = search.prepare(data)
    notes = search.plan(data=prepared).notes
    assert any(note.startswith("stack: 4 of 4 configurations share 1 architectures") for note in notes)
    selection = search.fit(prepared)
    events = [event for event in selection.outcome.events if event.kind == "train"]
    together = [event for event in events if event.members > 1]
    assert together
    assert "training units in groups of up to" in selection.explain()
    for trial in selection.trials:
        assert (trial.status == "diverged") == (trial.params["lr"] == DIVERGING), trial.status
        if not trial.visits:
            continue
        alone = open_session(trainer_fn, trial.params, initial_seed(SEED, trial.trial_id))
        following = [epoch for epoch, _ in trial.visits[1:]] + [None]
        for (epoch, partition), later in zip(trial.visits, following, strict=True):
            shard = load_shard(prepared, "train", partition)
            order = row_order(SEED, trial.trial_id, epoch, partition, shard.rows)
            alone.train(shard, order, ends_epoch=later != epoch)
        trained = open_session(trainer_fn, trial.params, 0)
        checkpoints = Checkpoints(prepared.store, selection.run_id)
        record = max(checkpoints.records(trial.trial_id), key=lambda each: each.version)
        trained.restore(checkpoints.read(trial.trial_id, record.version, record.digest))
        for name, value in alone.model.state_dict().items():
            torch.testing.assert_close(trained.model.state_dict()[name], value, rtol=1e-4, atol=1e-5, msg=name)
    with pytest.raises(RunError, match="in groups"):
        selection.replay(backend=search.backend)


def test_stack_is_one_of_two_words(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="stack must be one of"):
        grid(spark, tmp_path, {"lr": [0.1], "width": [4]}, stack="always")


def trials(*params: dict[str, Any]) -> list[Trial]:
    return [Trial(f"c{number:03d}", {"lr": 0.1, **each}) for number, each in enumerate(params)]


def ids(groups: list[Group]) -> list[list[str]]:
    return [[trial.trial_id for trial in group.trials] for group in groups]


def test_groups_have_one_architecture_and_keep_all_workers_busy() -> None:
    groups = StackedGroups(trainer_fn, num_workers=2)
    entering = trials(*[{"width": 4}] * 5, {"width": 8}, {"width": 4, "optimizer": "rmsprop"}, {"width": 0})
    assert ids(groups.groups(entering)) == [["c000", "c001"], ["c002", "c003", "c004"], ["c005"], ["c006"], ["c007"]]
    assert len(groups.groups(trials(*[{"width": 4}] * 40))) == 3  # at most 16 each
    lines = groups.explain([trial.params for trial in entering])
    assert lines[0].startswith("stack: 5 of 8 configurations share 1 architectures")
    assert "  1 train one by one: no other configuration has its architecture" in lines
    assert any("got RMSprop" in line for line in lines)
    assert any("cannot be opened on the driver: no units" in line for line in lines)


def test_a_group_enters_the_next_epoch_as_it_is_and_splits_after_a_loss() -> None:
    groups = StackedGroups(trainer_fn, num_workers=2)
    first, second = groups.groups(trials(*[{"width": 4}] * 6))
    assert ids(groups.groups(list(first.trials))) == ids([first])
    groups.record_failure(first, "its worker died")
    assert ids(groups.groups(list(first.trials))) == [["c000"], ["c001"], ["c002"]]
    assert ids(groups.groups(list(second.trials))) == ids([second])
