"""The Spark jobs that a run's workers live in: one each, started again where it is lost."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from pyspark.sql import is_remote

from udfs.driver import cause

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from cerebro_spark.hopper._coordinator import Coordinator
    from udfs.hopper import HopperWorker

__all__ = ["WorkerJobs"]

_LOG = logging.getLogger(__name__)

# Between two looks at silent workers and slow units.
_LOOK_S = 0.5

# Before a job is started again; a cluster that lost a node needs a moment.
_PAUSE_S = 1.0

_JOIN_S = 30.0


class WorkerJobs:
    """A Spark job a worker, each in a thread of its own.

    As one barrier stage, a lost worker would abort the whole job; as jobs of one task, Spark starts the lost one alone
    again, and this class does where Spark does not (``local[2]`` never tries a task twice).

    Parameters
    ----------
    spark : SparkSession
    coordinator : Coordinator
    workers : list of HopperWorker
        Those without partitions of their own are started once the others are there, for Spark gives slots in turn.
    restarts : int
        How often a worker's job is started again.
    """

    def __init__(
        self, spark: SparkSession, coordinator: Coordinator, workers: list[HopperWorker], *, restarts: int
    ) -> None:
        # One of our own: a classic session that has had a tag cannot be serialized any more, and Spark ML's summaries
        # hold theirs, so that every model of the user's that is fitted afterwards would fail.
        self._spark = spark if is_remote() else spark.newSession()
        self._coordinator = coordinator
        self._restarts = restarts
        self._over = threading.Event()
        self._tags: dict[str, str] = {}
        self._needed = {worker.worker for worker in workers if worker.partitions}
        self._given_up: set[str] = set()
        self.reports: list[Row] = []
        self._threads = [
            threading.Thread(target=self._serve, args=(worker,), name=worker.worker, daemon=True) for worker in workers
        ]
        self._watch = threading.Thread(target=self._look_after, name="watch", daemon=True)

    def start(self) -> None:
        """Start all of them."""
        for thread in (*self._threads, self._watch):
            thread.start()

    def stop(self) -> None:
        """Wait for the workers, which the coordinator has told to stop; end those that do not."""
        self._over.set()
        # Spark has not started these yet, or tries to again: nobody has told them to stop.
        for name in self._tags.keys() - set(self._coordinator.alive):
            self._spark.interruptTag(self._tags[name])
        until = time.monotonic() + _JOIN_S
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        for tag in self._tags.values():
            self._spark.interruptTag(tag)
        self._watch.join()

    def _serve(self, worker: HopperWorker) -> None:
        last: Exception | None = None
        while worker.worker not in self._needed and not self._coordinator.complete:
            if self._over.wait(_LOOK_S):
                return
        for attempt in range(self._restarts + 1):
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
                    self._coordinator.lose(worker.worker, f"its Spark job ended: {cause(error)}")
                    _LOG.warning("worker %s is started again (%d of %d)", worker.worker, attempt + 1, self._restarts)
                    self._over.wait(_PAUSE_S)
            else:
                # One that was taken for lost is told to stop as well, and is wanted again.
                if self._coordinator.wait(0.0):
                    return
            finally:
                self._spark.removeTag(tag)
        self._given_up.add(worker.worker)
        self._coordinator.give_up(worker.worker)
        if self._needed <= self._given_up and not self._coordinator.alive and last is not None:
            self._coordinator.fail(last)

    def _look_after(self) -> None:
        while not self._over.wait(_LOOK_S):
            for name in self._coordinator.look_after():
                # It may hang where no signal of ours reaches it: Spark ends the task, and the thread starts another.
                self._spark.interruptTag(self._tags[name])
