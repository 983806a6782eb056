"""Training of many groups in one task: each configuration for each group of a work item, and files of the results."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from udfs.arrow import report_batch
from udfs.grouping._baseline import baseline_error, error_of
from udfs.grouping._models import MODELS_SCHEMA
from udfs.grouping._reading import read_groups
from udfs.grouping._trainer import ConfigurationTrainer, scored_rows
from udfs.handlers import open_session, registered_frameworks, settings_kept
from udfs.node import limit_threads, task_device
from udfs.training import follow_task, initial_seed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from optimizer.grouping import WorkItem
    from udfs.grouping._grouped_data import GroupedData
    from udfs.grouping._reading import Group
    from udfs.grouping._trainer import Trained
    from udfs.handlers import Framework
    from udfs.training import Session, TaskDecision

__all__ = ["GROUPS_SCHEMA", "GroupTraining", "run_folder"]

GROUPS_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("level", pa.int32()),
        ("configuration", pa.int32()),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("rows", pa.int64()),
        ("held_out", pa.int64()),
        ("left_out", pa.string()),
        ("scored_on", pa.string()),
        ("metric", pa.float64()),
        ("metrics", pa.map_(pa.string(), pa.float64())),
        ("error", pa.float64()),
        ("baseline_error", pa.float64()),
        ("seconds", pa.float64()),
    ]
)
"""Columns of the results: a row for each group and configuration, or a row for a group that is not trained."""


def run_folder(run: str) -> tuple[str, ...]:
    """Return the folder of a run within its store."""
    return ("grouped", run)


@dataclass(frozen=True, slots=True)
class GroupTraining:
    """Training of work items. Call it with ``mapInArrow`` on the numbers of the items.

    Parameters
    ----------
    data : GroupedData
        Shards and indices.
    items : mapping of int to WorkItem
        Items by their numbers.
    run : str
        Name of the run; its folder gets the results of each item.
    trainer_fn : callable
        The user's function of a configuration to its trainer.
    configurations : tuple of dict
        Params of each configuration.
    task : TaskDecision
        Task of the configurations.
    metric : str
        Metric that decides between the configurations of a group.
    larger_is_better : bool
        Direction of the metric.
    epochs, seed, min_rows, threads : int
        Epochs to train, seed, least number of rows of a group, and CPU threads.
    fallback : bool
        Whether groups above the last level are trained.
    device : str
        Device, as :class:`cerebro_spark.SparkBackend` takes it.
    numbers : tuple of int
        Number of each item in its run, for the names of its files.
    """

    data: GroupedData
    items: Mapping[int, WorkItem]
    run: str
    trainer_fn: Callable[[dict[str, Any]], Any]
    configurations: tuple[dict[str, Any], ...]
    task: TaskDecision
    metric: str
    larger_is_better: bool
    epochs: int
    seed: int
    min_rows: int = 2
    fallback: bool = True
    threads: int = 1
    device: str = "cpu"
    numbers: tuple[int, ...] = ()
    registered: tuple[Framework, ...] = field(default_factory=registered_frameworks)

    schema: ClassVar[str] = "item int, models bigint, failed bigint, seconds double, notes string"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Train items, write their results to the store, and yield a row for each."""
        limit_threads(self.threads)
        for batch in batches:
            for place in batch.column(0).to_pylist():
                yield report_batch(self._train(place))

    @property
    def spec(self) -> dict[str, Any]:
        """Settings that decide the results, as plain data."""
        return {
            "prepared": self.data.prepared.name,
            "configurations": list(self.configurations),
            "items": [[asdict(item.chunk), item.configurations] for item in self.items.values()],
            "metric": [self.metric, self.larger_is_better],
            "epochs": self.epochs,
            "seed": self.seed,
            "min_rows": self.min_rows,
            "fallback": self.fallback,
        }

    def _train(self, place: int) -> ItemReport:
        start = time.perf_counter()
        item, store = self.items[place], self.data.prepared.store
        number = self.numbers[place]
        with settings_kept():
            work = _Item(self, item)
            work.run()
        name = f"item-{number:05d}.parquet"
        for kind, rows, schema in (("models", work.models, MODELS_SCHEMA), ("groups", work.rows, GROUPS_SCHEMA)):
            # The results follow the models: an item with results is complete.
            with store.writing(*run_folder(self.run), kind, name) as file:
                pq.write_table(pa.Table.from_pylist(rows, schema), file)
        failed = sum(row["status"] == "failed" for row in work.rows)
        return ItemReport(number, len(work.models), failed, time.perf_counter() - start, "\n".join(work.notes))


@dataclass(frozen=True, slots=True)
class ItemReport:
    """Result of a work item: models that were kept, trainings that failed, seconds, and notes for people to read."""

    item: int
    models: int
    failed: int
    seconds: float
    notes: str

    schema = GroupTraining.schema


class _Item:
    """A work item in training."""

    def __init__(self, training: GroupTraining, item: WorkItem) -> None:
        self.training = training
        self.item = item
        self.rows: list[dict[str, Any]] = []
        self.models: list[dict[str, Any]] = []
        self.notes: list[str] = []

    def run(self) -> None:
        """Train the item's configurations for each group."""
        training = self.training
        groups = []
        for group in read_groups(training.data, self.item.chunk):
            if not training.fallback and group.level < len(training.data.group_by):
                continue
            reason = self._refusal(group)
            if reason is None:
                groups.append(group)
            elif self.item.is_first:
                self.rows.append(_row(group) | {"status": "skipped", "reason": reason})
        baselines = [baseline_error(training.task.task, group.train, scored_rows(group)) for group in groups]
        best: dict[str, tuple[float, int, Callable[[], bytes]]] = {}
        for configuration in self.item.configurations:
            trainer = self._trainer(configuration)
            begun = time.perf_counter()
            results = trainer.train(groups)
            seconds = (time.perf_counter() - begun) / max(sum(group.train.rows for group in groups), 1)
            if trainer.pace.refusal:
                self.notes.append(f"configuration {configuration}: groups train one by one, {trainer.pace.refusal}")
            for group, baseline, result in zip(groups, baselines, results, strict=True):
                row = self._result(group, result)
                times = {"baseline_error": baseline, "seconds": seconds * group.train.rows}
                self.rows.append(row | times | {"configuration": configuration})
                if row["status"] == "finished" and result.weights is not None:
                    rank = -row["metric"] if training.larger_is_better else row["metric"]
                    if group.key not in best or rank < best[group.key][0]:
                        best[group.key] = rank, configuration, result.weights
        self.models = [
            {"key": key, "configuration": configuration, "content": weights()}
            for key, (_, configuration, weights) in best.items()
        ]

    def _refusal(self, group: Group) -> str | None:
        """Return the reason why a group is not trained."""
        rows = group.train.rows + group.held_out.rows
        if not rows:
            return f"no complete row ({_left_out(group)})"
        if rows < self.training.min_rows:
            return f"{rows} rows, fewer than min_rows={self.training.min_rows}"
        task = self.training.task.task
        if task.kind in {"binary", "multiclass"} and task.tokens is None:
            classes = np.unique(task.truth(group.train.labels[0]))
            if len(classes) == 1:
                return f"one class, {classes[0]:g}, in all {group.train.rows} rows to train on"
        return None

    def _trainer(self, configuration: int) -> ConfigurationTrainer:
        training = self.training

        def opened() -> Session:
            session = open_session(
                training.trainer_fn,
                training.configurations[configuration],
                initial_seed(training.seed, str(configuration)),
                device=task_device(training.device),
                weighted=training.data.prepared.weights is not None,
                epochs=training.epochs,
                data=training.data.prepared,
                by_group=True,
            )
            follow_task(session, training.task, None)
            return session

        return ConfigurationTrainer(
            training.run,
            configuration,
            opened,
            epochs=training.epochs,
            seed=training.seed,
            metric=training.metric,
        )

    def _result(self, group: Group, result: Trained) -> dict[str, Any]:
        """Return the row of a trained group."""
        training = self.training
        if result.outputs is None:
            return _row(group) | {"status": "failed", "reason": result.reason}
        value = result.metrics[training.metric]
        if not math.isfinite(value):
            return _row(group) | {"status": "failed", "reason": f"{training.metric} is {value}"}
        return _row(group) | {
            "status": "finished",
            "scored_on": "validation" if group.held_out.rows else "training",
            "metric": value,
            "metrics": list(result.metrics.items()),
            "error": error_of(training.task.task, result.outputs, scored_rows(group)),
        }


def _row(group: Group) -> dict[str, Any]:
    rows = {"rows": group.train.rows, "held_out": group.held_out.rows}
    return {"key": group.key, "level": group.level, "left_out": _left_out(group) or None, **rows}


def _left_out(group: Group) -> str:
    return ", ".join(f"{reason}: {count}" for reason, count in group.left_out.items())
