"""Spark jobs that long-lived workers live in: one each, started again where it is lost."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import is_remote

from udfs.driver._error_causes import cause

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["LongLivedWorker", "Supervisor", "WorkerJobs"]

_LOG = logging.getLogger(__name__)

# Between two looks at silent workers and slow work.
_LOOK_S = 0.5

# Before a job is started again; a cluster that lost a node needs a moment.
_PAUSE_S = 1.0

# For workers to end in order: those that have a unit cannot.
_PATIENCE_S = 3.0

# For those that did not to be ended.
_END_S = 30.0


class LongLivedWorker(Protocol):
    """A function for ``mapInArrow`` that serves until its supervisor tells it to stop."""

    @property
    def worker(self) -> str:
        """Name that no other worker of the pool has."""

    @property
    def pool(self) -> str:
        """Id of those that are started and ended together."""

    @property
    def spare(self) -> bool:
        """True if the pool can do without it: it is started once all others are attached."""

    @property
    def schema(self) -> str:
        """Columns of its rows, as Spark writes them; they are never read."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Serve until the supervisor says that it is over."""


class Supervisor(Protocol):
    """The driver's side of a pool, which the workers call. Every method may be called from any thread."""

    def lose(self, name: str, why: str) -> None:
        """Record that a worker is gone; its job may be started again."""

    def give_up(self, name: str) -> None:
        """Record that a worker will not come back."""

    def fail(self, error: BaseException) -> None:
        """End the runs of the workers with an error."""

    def wait(self, timeout_s: float) -> bool:
        """Wait until it is over, and give whether it is."""

    def uncharged(self, name: str) -> int:
        """Count the losses of a worker that do not count against its restarts: its work was the reason, or may be."""

    def abort(self) -> None:
        """Terminate every process of the run at once, because Spark has given up its task."""

    def settle(self, timeout_s: float) -> bool:
        """Wait until no process of a worker is at work for the run, and give whether that is so."""

    @property
    def alive(self) -> tuple[str, ...]:
        """Names of the workers that are attached."""

    @property
    def complete(self) -> bool:
        """True if every worker that is no spare has been attached once."""

    def look_after(self) -> tuple[str, ...]:
        """Find workers that have fallen silent, and give their names: their jobs are ended and started again."""


class WorkerJobs:
    """Spark jobs of the workers, each in a thread of its own.

    As one barrier stage, a lost worker would abort the whole job; as jobs of one task, Spark starts the lost one alone
    again, and this class does where Spark does not (``local[2]`` never tries a task twice).

    Parameters
    ----------
    workers : sequence of LongLivedWorker
        Spare ones are started once the others are attached, for Spark gives slots in turn.
    restarts : int
        Number of times that a worker's job is started again; losses that the supervisor does not charge to it do not
        count. 0: never, whatever the reason.
    """

    def __init__(
        self, spark: SparkSession, supervisor: Supervisor, workers: Sequence[LongLivedWorker], *, restarts: int
    ) -> None:
        # On classic Spark a tag is seen by the thread alone that set it: there each job has a session of its own, all
        # jobs of which can be ended from any thread. On Connect tags work as they say.
        self._tagged = is_remote()
        self._sessions = {worker.worker: spark if self._tagged else spark.newSession() for worker in workers}
        self._supervisor = supervisor
        self._restarts = restarts
        self._over = threading.Event()
        self._tags: dict[str, str] = {}
        self._needed = {worker.worker for worker in workers if not worker.spare}
        self._given_up: set[str] = set()
        self._threads = [
            threading.Thread(target=self._serve, args=(worker,), name=worker.worker, daemon=True) for worker in workers
        ]
        self._monitor = threading.Thread(target=self._look_after, name="look-after", daemon=True)

    def start(self) -> None:
        """Start all of them."""
        for thread in (*self._threads, self._monitor):
            thread.start()

    def stop(self) -> None:
        """Wait for the workers, which the supervisor has told to stop; end the jobs and processes of those that do not.

        Spark's tasks come first: where the process of a task that goes on is killed, the JVM prints a stack trace.
        """
        self._over.set()
        # Spark has not started these yet, or is about to start them again: they have not been told to stop.
        self._interrupt(self._tags.keys() - set(self._supervisor.alive))
        if not self._join(_PATIENCE_S):
            until = time.monotonic() + _END_S
            # A job that was only about to start did not have its tag yet.
            while time.monotonic() < until:
                self._interrupt(self._tags)
                if self._join(_PAUSE_S):
                    break
        self._supervisor.abort()
        self._monitor.join()
        if not (self._supervisor.settle(_END_S) and self._join(0.0)):
            _LOG.warning("a worker has not ended in %.0f s; its process ends itself once this one is gone", _END_S)

    def _interrupt(self, names: Iterable[str]) -> None:
        for name in tuple(names):
            try:
                if self._tagged:
                    self._sessions[name].interruptTag(self._tags[name])
                else:
                    self._sessions[name].interruptAll()
            except Exception as error:  # noqa: BLE001 - of Spark, of any kind: it is gone, and its tasks with it
                _LOG.warning("the job of worker %s could not be ended: %s", name, cause(error))

    def _join(self, timeout_s: float) -> bool:
        until = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _serve(self, worker: LongLivedWorker) -> None:
        last: Exception | None = None
        if not self._is_wanted(worker.worker):
            return
        for attempt in itertools.count():
            if self._over.is_set():
                return
            try:
                self._run(worker, attempt)
            except Exception as error:  # noqa: BLE001 - of Spark, of any kind: the worker is gone
                last = error
                if not self._over.is_set():
                    self._report_loss(worker.worker, error)
            else:
                # A worker that was considered lost is stopped as well, and started again.
                if self._supervisor.wait(0.0):
                    return
            if not self._may_start_again(worker.worker, attempt + 1):
                break
        self._given_up.add(worker.worker)
        self._supervisor.give_up(worker.worker)
        if self._needed <= self._given_up and not self._supervisor.alive and last is not None:
            self._supervisor.fail(last)

    def _report_loss(self, name: str, error: Exception) -> None:
        try:
            self._supervisor.lose(name, f"its Spark job ended: {cause(error)}")
        except Exception:  # noqa: BLE001 - the job is started again nevertheless
            _LOG.exception("the loss of worker %s could not be handled", name)

    def _run(self, worker: LongLivedWorker, attempt: int) -> None:
        """Run one job of a worker to its end."""
        spark = self._sessions[worker.worker]
        tag = f"{worker.pool}-{worker.worker}-{attempt}"
        self._tags[worker.worker] = tag
        job = spark.range(0, 1, 1, 1).mapInArrow(worker, worker.schema)
        if not self._tagged:
            job.collect()
            return
        spark.addTag(tag)
        try:
            job.collect()
        finally:
            spark.removeTag(tag)

    def _is_wanted(self, name: str) -> bool:
        """Make a spare worker wait until the others are attached; return ``False`` if the run ends before."""
        while name not in self._needed and not self._supervisor.complete:
            if self._over.wait(_LOOK_S):
                return False
        return True

    def _may_start_again(self, name: str, losses: int) -> bool:
        """Return whether a worker that was lost has restarts remaining; pause if so."""
        charged = max(0, losses - self._supervisor.uncharged(name))
        if not self._restarts or charged > self._restarts:
            return False
        if not self._over.is_set():
            _LOG.warning("worker %s is started again (%d of %d restarts are used)", name, charged, self._restarts)
            self._over.wait(_PAUSE_S)
        return True

    def _look_after(self) -> None:
        while not self._over.wait(_LOOK_S):
            try:
                silent = self._supervisor.look_after()
            except Exception:  # noqa: BLE001 - without this thread no worker that hangs would be found any more
                _LOG.exception("the workers could not be looked after")
                continue
            for name in silent:
                # It may hang where no signal of ours reaches it: Spark ends the task, and the thread starts another.
                self._interrupt([name])
