"""Spark jobs that a run's long-lived workers live in: one each, started again where it is lost."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import is_remote

from udfs.driver._causes import cause

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import Row, SparkSession

__all__ = ["LongLivedWorker", "Supervisor", "WorkerJobs"]

_LOG = logging.getLogger(__name__)

# Between two looks at silent workers and slow work.
_LOOK_S = 0.5

# Before a job is started again; a cluster that lost a node needs a moment.
_PAUSE_S = 1.0

_JOIN_S = 30.0


class LongLivedWorker(Protocol):
    """A function for ``mapInArrow`` that serves until its supervisor tells it to stop, and then reports rows."""

    @property
    def worker(self) -> str:
        """Its name, which no other worker of the run has."""

    @property
    def run(self) -> str:
        """Id of the run."""

    @property
    def spare(self) -> bool:
        """Whether the run can do without it: it is started once all others are attached."""

    @property
    def schema(self) -> str:
        """Columns of the rows that it reports, as Spark writes them."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Serve until the run is over."""


class Supervisor(Protocol):
    """The driver's side of a run, which the workers call. Every method may be called from any thread."""

    def lose(self, name: str, why: str) -> None:
        """Note that a worker is gone; its job may be started again."""

    def give_up(self, name: str) -> None:
        """Note that a worker will not come back."""

    def fail(self, error: BaseException) -> None:
        """End the run with an error."""

    def wait(self, timeout_s: float) -> bool:
        """Wait until the run is over, and give whether it is."""

    def uncharged(self, name: str) -> int:
        """Count the losses of a worker that do not count against its restarts: its work was the reason, or may be."""

    @property
    def alive(self) -> tuple[str, ...]:
        """Names of the workers that are attached."""

    @property
    def complete(self) -> bool:
        """Whether every worker that is no spare has been attached once."""

    def look_after(self) -> tuple[str, ...]:
        """Find workers that have fallen silent, and give their names: their jobs are ended and started again."""


class WorkerJobs:
    """One Spark job per worker, each in a thread of its own.

    As one barrier stage, a lost worker would abort the whole job; as jobs of one task, Spark starts the lost one alone
    again, and this class does where Spark does not (``local[2]`` never tries a task twice).

    Parameters
    ----------
    spark : SparkSession
    supervisor : Supervisor
    workers : sequence of LongLivedWorker
        Spare ones are started once the others are attached, for Spark gives slots in turn.
    restarts : int
        How often a worker's job is started again; losses that the supervisor does not charge to it do not count. 0:
        never, whatever the reason.

    Attributes
    ----------
    reports : list of Row
        Rows of the workers that have ended without an error.
    """

    def __init__(
        self, spark: SparkSession, supervisor: Supervisor, workers: Sequence[LongLivedWorker], *, restarts: int
    ) -> None:
        # One of our own: a classic session that has had a tag cannot be serialized any more, and Spark ML's summaries
        # hold theirs, so that every model of the user's that is fitted afterwards would fail.
        self._spark = spark if is_remote() else spark.newSession()
        self._supervisor = supervisor
        self._restarts = restarts
        self._over = threading.Event()
        self._tags: dict[str, str] = {}
        self._needed = {worker.worker for worker in workers if not worker.spare}
        self._given_up: set[str] = set()
        self.reports: list[Row] = []
        self._threads = [
            threading.Thread(target=self._serve, args=(worker,), name=worker.worker, daemon=True) for worker in workers
        ]
        self._monitor = threading.Thread(target=self._look_after, name="look-after", daemon=True)

    def start(self) -> None:
        """Start all of them."""
        for thread in (*self._threads, self._monitor):
            thread.start()

    def stop(self) -> None:
        """Wait for the workers, which the supervisor has told to stop; end the jobs of those that do not."""
        self._over.set()
        # Spark has not started these yet, or is about to start them again: nobody has told them to stop.
        for name in self._tags.keys() - set(self._supervisor.alive):
            self._spark.interruptTag(self._tags[name])
        until = time.monotonic() + _JOIN_S
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        for tag in self._tags.values():
            self._spark.interruptTag(tag)
        self._monitor.join()

    def _serve(self, worker: LongLivedWorker) -> None:
        last: Exception | None = None
        if not self._is_wanted(worker.worker):
            return
        for attempt in itertools.count():
            if self._over.is_set():
                return
            tag = f"{worker.run}-{worker.worker}-{attempt}"
            self._tags[worker.worker] = tag
            try:
                self._spark.addTag(tag)
                self.reports += self._spark.range(0, 1, 1, 1).mapInArrow(worker, worker.schema).collect()
            except Exception as error:  # noqa: BLE001 - of Spark, of any kind: the worker is gone
                last = error
                if not self._over.is_set():
                    self._supervisor.lose(worker.worker, f"its Spark job ended: {cause(error)}")
            else:
                # One that was taken for lost is told to stop as well, and is wanted again.
                if self._supervisor.wait(0.0):
                    return
            finally:
                self._spark.removeTag(tag)
            if not self._may_start_again(worker.worker, attempt + 1):
                break
        self._given_up.add(worker.worker)
        self._supervisor.give_up(worker.worker)
        if self._needed <= self._given_up and not self._supervisor.alive and last is not None:
            self._supervisor.fail(last)

    def _is_wanted(self, name: str) -> bool:
        """Let a spare worker wait until the others are attached; ``False`` where the run is over before."""
        while name not in self._needed and not self._supervisor.complete:
            if self._over.wait(_LOOK_S):
                return False
        return True

    def _may_start_again(self, name: str, losses: int) -> bool:
        """Tell whether a worker that was lost has restarts remaining; pause if so."""
        charged = max(0, losses - self._supervisor.uncharged(name))
        if not self._restarts or charged > self._restarts:
            return False
        if not self._over.is_set():
            _LOG.warning("worker %s is started again (%d of %d restarts are used)", name, charged, self._restarts)
            self._over.wait(_PAUSE_S)
        return True

    def _look_after(self) -> None:
        while not self._over.wait(_LOOK_S):
            for name in self._supervisor.look_after():
                # It may hang where no signal of ours reaches it: Spark ends the task, and the thread starts another.
                self._spark.interruptTag(self._tags[name])
