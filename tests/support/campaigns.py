"""Campaigns of adaptation small enough for a test, and the plain loop that their models equal."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import torch
from pyspark import TaskContext, cloudpickle

from cerebro_spark import Adaptation, ModelTrainer, SparkBackend, Store
from optimizer.adaptation import Costs
from udfs.adaptation import FeatureWriter
from udfs.handlers.torch._session import as_tensor
from udfs.hopper import Checkpoints
from udfs.packing import unpack
from udfs.shards import load_shard
from udfs.training import initial_seed, row_order

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from cerebro_spark.adaptation import Cycle

__all__ = [
    "BATCH",
    "SCHEMA",
    "SEED",
    "SLOW_WORKER",
    "WIDE",
    "campaign",
    "check_against_plain_loop",
    "checkpoint",
    "deadly",
    "features_of",
    "frame",
    "learned",
    "looped",
    "records",
    "trainer",
]

# The workers have no such module: its functions go to them by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

WIDE, INNER, NARROW, HIDDEN, CLASSES = 8, 128, 96, 384, 3
BATCH, EPOCHS, SEED = 16, 2, 5
SCHEMA = "id long, x array<double>, y int"

# Reading costs next to nothing beside computing: every feed is worth its disk.
SLOW_WORKER = Costs(flops_per_second=1e6, bytes_per_second=1e9)


def trunk_of() -> torch.nn.Sequential:
    """A trunk that is the same in every process, drawn from a seed of its own."""
    drawn = torch.random.get_rng_state()
    torch.manual_seed(0)
    layers = [torch.nn.Linear(WIDE, INNER), torch.nn.Tanh(), torch.nn.Linear(INNER, NARROW), torch.nn.Tanh()]
    torch.random.set_rng_state(drawn)
    return torch.nn.Sequential(*layers).requires_grad_(requires_grad=False)


def network(params: dict[str, Any]) -> torch.nn.Sequential:
    """Batch norm whose statistics move, dropout that draws, over two or all four layers of the trunk."""
    depth = params["layers"]
    wide = INNER if depth == 2 else NARROW
    return torch.nn.Sequential(
        *trunk_of()[:depth],
        torch.nn.Linear(wide, HIDDEN),
        torch.nn.BatchNorm1d(HIDDEN),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.3),
        torch.nn.Linear(HIDDEN, CLASSES),
    )


def trainer(params: dict[str, Any]) -> ModelTrainer:
    net = network(params)
    optimizer = torch.optim.Adam([weight for weight in net.parameters() if weight.requires_grad], lr=params["lr"])
    return ModelTrainer(
        model=net,
        optimizer=optimizer,
        loss=torch.nn.CrossEntropyLoss(),
        metrics=["accuracy"],
        batch_size=BATCH,
        scheduler=torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9),
        epochs=EPOCHS,
    )


def records(start: int, end: int) -> list[tuple[int, list[float], int]]:
    """Records of their ids: two calls give the same."""
    drawn = [(number, np.random.default_rng(number).normal(size=WIDE)) for number in range(start, end)]
    return [(number, x.tolist(), int(np.argmax(x[:CLASSES]))) for number, x in drawn]


def frame(spark: SparkSession, *rows: Any) -> DataFrame:
    return spark.createDataFrame(list(rows), SCHEMA)


def campaign(spark: SparkSession, store: Store | Path | str, **settings: Any) -> Adaptation:
    usual = {
        "backend": SparkBackend(spark, num_workers=2, threads=1),
        "store": store if isinstance(store, Store) else Store.from_uri(str(store)),
        "trainer_fn": trainer,
        "search_space": {"lr": [0.01, 0.001], "layers": [2, 4]},
        "id_column": "id",
        "feature_columns": ["x"],
        "label_columns": ["y"],
        "metric": "accuracy",
        "name": "campaign",
        "max_records": 500,
        "costs": SLOW_WORKER,
        "progress": False,
        "seed": SEED,
    }
    return Adaptation(**usual | settings)


def checkpoint(cycle: Cycle, trial_id: str) -> dict[str, Any]:
    """What the store has of a trial after its last unit."""
    kept = Checkpoints(cycle.prepared.store, cycle.run_id)
    record = kept.last(trial_id)
    assert record is not None
    return unpack(kept.read(trial_id, record.version, record.digest), as_tensor)


def learned(cycle: Cycle) -> dict[str, dict[str, np.ndarray]]:
    """Weights and buffers that changed in training, by trial."""
    return {
        trial.trial_id: {name: value.numpy() for name, value in checkpoint(cycle, trial.trial_id)["model"].items()}
        for trial in cycle.trials
    }


def deadly(mark: str, driver: int | None = None, *, executor: bool = False) -> Callable[[dict[str, Any]], ModelTrainer]:
    """Have the first worker that has written three blocks of stored layers kill a process, once for a file ``mark``.

    It kills itself; and with ``driver`` the driver of that number before, with ``executor`` the JVM that it is of.
    """

    def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
        known: Any = FeatureWriter.write
        if TaskContext.get() is not None and getattr(known, "mark", "") != mark and not Path(mark).exists():
            write, blocks = getattr(known, "whole", known), itertools.count(1)

            def dying(writer: FeatureWriter, rows: np.ndarray, *, passed: int = 0) -> None:
                write(writer, rows, passed=passed)
                if next(blocks) < 3:
                    return
                # Spark uses its Python workers again: a test that comes later is to find them as they were.
                FeatureWriter.write = write  # type: ignore[method-assign]
                if _is_first(mark):
                    # The nearest one is the executor; the node's worker is above it.
                    java = (each.pid for each in psutil.Process().parents() if each.name() == "java")
                    for victim in (next(java) if executor else None, driver, os.getpid()):
                        if victim is not None:
                            os.kill(victim, signal.SIGKILL)

            patch: Any = dying
            patch.whole, patch.mark = write, mark
            FeatureWriter.write = patch  # type: ignore[method-assign]
        return trainer(params)

    return trainer_fn


def _is_first(mark: str) -> bool:
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except OSError:  # another one was, or the test and its folder are gone
        return False
    return True


def looped(
    cycle: Cycle,
    trial_id: str,
    begin: Mapping[str, np.ndarray] | None = None,
    build: Callable[[dict[str, Any]], ModelTrainer] = trainer,
) -> tuple[dict[str, np.ndarray], list[float]]:
    """An ordinary loop over the shards in a trial's order: nothing of ours but data and seeds.

    The trunk's outputs are those of the records of each batch of labels, ``BATCH`` at a time. ``begin`` has weights and
    buffers to begin with, in place of the initial ones.

    Returns
    -------
    tuple of dict of str to array and list of float
        The whole model's state, and the mean training loss of each epoch.
    """
    trial = next(each for each in cycle.trials if each.trial_id == trial_id)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(initial_seed(SEED, trial_id))
    built = build(trial.params)
    if begin is not None:
        built.model.load_state_dict({name: torch.tensor(value) for name, value in begin.items()}, strict=False)
    frozen, head = built.model[: trial.params["layers"]], built.model[trial.params["layers"] :]
    head.train()
    losses = [0.0] * len(trial.history)
    seen = [0.0] * len(trial.history)
    for place, (epoch, partition) in enumerate(trial.visits):
        inputs, labels, weights = features_of(cycle, partition, frozen)
        order = row_order(SEED, "", epoch, partition, len(labels))
        for start in range(0, len(order), BATCH):
            picked = order[start : start + BATCH]
            built.optimizer.zero_grad()
            outputs = head(inputs[picked])
            if weights is None:
                loss = built.loss(outputs, labels[picked])
            else:
                own = weights[picked].double()
                scaled = (own * (len(own) / own.sum())).float()
                each = torch.nn.functional.cross_entropy(outputs, labels[picked], reduction="none")
                loss = (scaled * each).sum() / scaled.sum()
            loss.backward()
            built.optimizer.step()
            total = len(picked) if weights is None else weights[picked].sum().item()
            losses[epoch] += loss.item() * total
            seen[epoch] += total
        if place % len(cycle.prepared.partitions) == len(cycle.prepared.partitions) - 1:
            built.scheduler.step()
    torch.set_num_threads(threads)
    state = {name: value.numpy() for name, value in built.model.state_dict().items()}
    return state, [loss / rows for loss, rows in zip(losses, seen, strict=True)]


def check_against_plain_loop(cycle: Cycle, build: Callable[[dict[str, Any]], ModelTrainer] = trainer) -> None:
    """Every bit that training changed is that of an ordinary loop in the trial's order; so are the losses, rounded."""
    found = learned(cycle)
    for trial in cycle.trials:
        assert trial.status == "finished", trial.traceback
        truth, losses = looped(cycle, trial.trial_id, build=build)
        own = found[trial.trial_id]
        assert set(own) == {name for name in truth if int(name[0]) >= trial.params["layers"]}
        for name, value in own.items():
            np.testing.assert_array_equal(value, truth[name], err_msg=f"{trial.trial_id} {name}")
        np.testing.assert_allclose([epoch["loss"] for epoch in trial.history], losses, rtol=1e-5)


def features_of(
    cycle: Cycle, partition: int, frozen: torch.nn.Module
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """The trunk's outputs of a shard, its labels as they are now, and its weights."""
    data = cycle.prepared
    parts = data.parts(data.shard("train", partition))
    brought = [each for each in data.increments if each.shard("train", partition) is not None]
    kept = []
    for increment, part in zip(brought, parts, strict=True):
        raw = torch.from_numpy(load_shard(increment.data, "train", partition).inputs[0])
        if raw.dtype == torch.uint8:  # a session hands pixels to the model as shares of 255
            raw = raw.float() / 255
        with torch.no_grad():
            outputs = torch.cat([frozen(raw[start : start + BATCH]) for start in range(0, len(raw), BATCH)])
        kept.append(outputs if part.keep is None else outputs[torch.from_numpy(part.keep)])
    shard = load_shard(data, "train", partition)
    weights = None if shard.weights is None else torch.from_numpy(shard.weights)
    return torch.cat(kept), torch.from_numpy(shard.labels[0]).long(), weights
