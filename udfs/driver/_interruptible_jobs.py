"""Spark's work that an interrupt by the user ends, whole and without a trace."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from pyspark import InheritableThread
from pyspark.sql import is_remote

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

__all__ = ["interruptible"]

ResultT = TypeVar("ResultT")

# Between two looks, so that an interrupt is heard in between.
_LOOK_S = 0.25

# Looks in a row that find no job.
_QUIET = 4


def interruptible(spark: SparkSession, work: Callable[[], ResultT]) -> ResultT:
    """Call a function that runs Spark jobs; where the user interrupts it, end its jobs, and wait until it is over.

    On classic Spark it runs in a thread of its own: an interrupt in the middle of a call of the JVM would leave the
    answer in the connection, for the next call to take it for its own. The jobs of other sessions go on. A client of
    Connect ends its operation by itself.
    """
    if is_remote():
        return work()
    results: list[ResultT] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            errors.append(error)

    thread = InheritableThread(target=run, name="interruptible", daemon=True)
    try:
        thread.start()
        while thread.is_alive():
            thread.join(_LOOK_S)
    except KeyboardInterrupt:
        _end(spark, thread)
        raise
    if errors:
        raise errors[0]
    return results[0]


def _end(spark: SparkSession, thread: InheritableThread) -> None:
    """Cancel jobs until there are none: adaptive execution may submit one more while the one before is cancelled."""
    quiet = 0
    while thread.is_alive() or quiet < _QUIET:
        quiet = 0 if spark.interruptAll() else quiet + 1
        time.sleep(_LOOK_S)
