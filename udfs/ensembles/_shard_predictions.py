"""Predictions of many states of configurations over the validation shards, in one job."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from udfs.ensembles._held_out_rows import held_out_rows
from udfs.handlers import open_session, register_framework, registered_frameworks, settings_kept
from udfs.node import keep_freed_memory, limit_threads
from udfs.shards import load_sample, load_shard
from udfs.training import Folds, Task, follow_task, initial_seed, random_stream, view_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from udfs.ensembles._held_out_rows import HeldOutRows, HeldOutWindows
    from udfs.handlers import Framework
    from udfs.sequences import Windows
    from udfs.shards import PreparedData
    from udfs.training import Session, TaskDecision

__all__ = ["CandidateStates", "ShardPrediction", "ShardPredictions"]

_LONGEST_ERROR = 500


@dataclass(frozen=True, slots=True)
class CandidateStates:
    """Configuration, and the states of its network that may be members.

    ``states`` has a function for each epoch, counted from 1, that reads the state after it.
    """

    trial_id: str
    params: Mapping[str, Any]
    states: Mapping[int, Callable[[], bytes]]


@dataclass(frozen=True, slots=True, eq=False)
class ShardPrediction:
    """Outputs of a state for the rows of a shard, or the rows themselves.

    A shard has a prediction for each candidate, and before them one whose ``candidate`` is -1: its ``arrays`` are the
    ``part`` of each row, its ``labels`` and, where there are any, its ``weights``. The arrays of a candidate are its
    ``outputs``, of shape ``(rows, outputs)``, and there are none where ``error`` says why it cannot predict.
    """

    partition: int
    candidate: int
    task: Task | None
    arrays: Mapping[str, NDArray[Any]]
    error: str = ""

    @classmethod
    def from_row(cls, row: Any) -> ShardPrediction:
        """Read a row that :class:`ShardPredictions` yielded."""
        task = Task.from_dict(json.loads(row["task"])) if row["task"] else None
        arrays: dict[str, NDArray[Any]] = {}
        if row["content"]:
            with np.load(io.BytesIO(row["content"]), allow_pickle=False) as content:
                arrays = dict(content)
        return cls(row["partition"], row["candidate"], task, arrays, row["error"])

    def to_batch(self) -> pa.RecordBatch:
        """Write a row for :meth:`from_row`."""
        content = io.BytesIO()
        if self.arrays:
            np.savez(content, **self.arrays)  # type: ignore[arg-type]
        return pa.RecordBatch.from_pydict(
            {
                "partition": pa.array([self.partition], pa.int32()),
                "candidate": pa.array([self.candidate], pa.int32()),
                "task": [json.dumps(self.task.to_dict()) if self.task else ""],
                "content": pa.array([content.getvalue()], pa.binary()),
                "error": [self.error],
            }
        )


@dataclass(frozen=True, slots=True)
class ShardPredictions:
    """Predictions of all candidates for validation shards, for ``mapInArrow`` on numbers of partitions.

    Every shard is read once, and every configuration is opened once in each task. ``seed`` is that of the search,
    ``decision`` the task of its first configuration. ``folds`` assigns rows to the two parts, and ``most_rows`` limits
    the rows of a shard: they are shuffled, so the first ones are a random sample. With ``windows``, the rows are these
    windows, evenly spaced where there are more, and each configuration reads its part of them.
    """

    prepared: PreparedData
    trainer_fn: Callable[[dict[str, Any]], Any]
    seed: int
    decision: TaskDecision | None
    candidates: tuple[CandidateStates, ...]
    folds: Folds
    most_rows: int = 10**9
    batch_size: int = 1024
    windows: Windows | None = None
    registered: tuple[Framework, ...] = field(default_factory=registered_frameworks)

    schema: ClassVar[str] = "partition int, candidate int, task string, content binary, error string"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows and the predictions of each shard."""
        partitions = [number for batch in batches for number in batch.column(0).to_pylist()]
        if not partitions:
            return
        keep_freed_memory()
        register_framework(*self.registered)
        limit_threads(_task_threads())
        for partition in partitions:
            shard = load_shard(self.prepared, "validation", partition)
            rows = held_out_rows(shard, self.windows, self.folds, self.most_rows)
            weights = {} if rows.weights is None else {"weights": rows.weights}
            known = {"part": rows.part, "labels": rows.labels, **weights}
            yield ShardPrediction(partition, -1, None, known).to_batch()
            number = 0
            for configuration in self.candidates:
                for each in self._predictions(partition, number, configuration, rows):
                    yield each.to_batch()
                number += len(configuration.states)

    def _predictions(
        self, partition: int, number: int, configuration: CandidateStates, rows: HeldOutRows | HeldOutWindows
    ) -> Iterator[ShardPrediction]:
        with settings_kept():
            session: Session | None = None
            for place, read in enumerate(configuration.states.values()):
                try:
                    session = session or self._opened(configuration)
                    session.restore(read())
                    outputs = self._outputs(session, rows)
                    task = session.sums.task
                    yield ShardPrediction(partition, number + place, task, {"outputs": outputs})
                except Exception as error:  # noqa: BLE001 - a candidate that fails is no member, and others may be
                    reason = f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]
                    yield ShardPrediction(partition, number + place, None, {}, reason)

    def _opened(self, configuration: CandidateStates) -> Session:
        seed = initial_seed(self.seed, random_stream(configuration.trial_id, configuration.params))
        session = open_session(self.trainer_fn, configuration.params, seed, data=self.prepared)
        if self.decision is not None:
            follow_task(session, self.decision, lambda: load_sample(self.prepared, view=view_of(session)))
        return session

    def _outputs(self, session: Session, rows: HeldOutRows | HeldOutWindows) -> NDArray[np.float32]:
        parts = []
        for inputs in rows.batches(view_of(session), self.batch_size):
            (first, *_) = session.predict(inputs)
            parts.append(first.reshape(len(first), -1))
        columns = session.sums.task.num_outputs or 1
        return np.concatenate(parts) if parts else np.empty((0, columns), np.float32)


def _task_threads() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    with suppress(AttributeError):
        return int(context.cpus())  # type: ignore[union-attr]
    return 1
