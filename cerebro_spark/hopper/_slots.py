"""Task slots of a Spark session: either Spark's own jobs use them, or a pool's workers hold them."""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from cerebro_spark.errors import BusyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

__all__ = ["Slots", "slots_of", "uses_slots"]

_LOG = logging.getLogger(__name__)

_SESSIONS: WeakKeyDictionary[SparkSession, Slots] = WeakKeyDictionary()
_LOCK = threading.Lock()


class Holder(Protocol):
    """Workers that hold slots until the last run is over; :class:`Pool` is one."""

    closing: bool
    workers: int

    def check(self, backend: Any) -> None:
        """Raise ``BusyError`` where a backend's workers are not like these."""


class Slots:
    """The task slots of one session, as far as this process uses them. Code that reads or changes it holds ``changed``.

    Spark gives a slot to the first job that asks, and a pool's workers keep theirs: a job that is in the middle of its
    stages as a pool opens would wait for the pool's end. So a pool that takes all slots opens once such jobs have
    ended. ``count`` is the number of slots as counted last, and ``users`` that of the jobs that go on, as far as this
    process knows.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.pool: Holder | None = None
        self.count: int | None = None
        self.users = 0

    def spares(self, workers: int) -> bool:
        """Return whether a slot is free in addition to a number of workers."""
        return self.count is not None and self.count > workers

    def settled(self) -> Holder | None:
        """Wait while a pool closes, and give the one that is open."""
        self.changed.wait_for(lambda: self.pool is None or not self.pool.closing)
        return self.pool

    @contextmanager
    def used(self) -> Iterator[None]:
        """Record jobs that run."""
        with self.changed:
            self.users += 1
        try:
            yield
        finally:
            with self.changed:
                self.users -= 1
                self.changed.notify_all()


def slots_of(spark: SparkSession) -> Slots:
    """Return the slots of a session."""
    with _LOCK:
        return _SESSIONS.setdefault(spark, Slots())


@contextmanager
def uses_slots(spark: SparkSession) -> Iterator[None]:
    """Run Spark jobs: no pool takes all slots meanwhile.

    Raises
    ------
    BusyError
        A pool has them: the jobs would wait for its end.
    """
    slots = slots_of(spark)
    with ExitStack() as using:
        with slots.changed:
            pool = slots.settled()
            if pool is not None and not slots.spares(pool.workers):
                raise BusyError(
                    f"a run goes on in this Spark session and holds its task slots ({pool.workers} workers, "
                    f"{slots.count} slots), so that a job would wait for its end. Wait for it; or have fewer workers "
                    "than slots; to train another search beside it, give that one data that are prepared already, of "
                    "its prepare(df)"
                )
            using.enter_context(slots.used())
        yield
