"""Count task slots before a barrier stage starts: Spark would look for missing ones for ten minutes."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["is_local", "task_slots"]

_LOG = logging.getLogger(__name__)

# Spark's own spark.scheduler.maxRegisteredResourcesWaitingTime; executors come one by one after a session has started.
_PATIENCE_S = 30.0
_PAUSE_S = 0.5

# Of a cluster, whatever it has: CoarseGrainedSchedulerBackend.defaultParallelism.
_LEAST_PARALLELISM = 2


def is_local(spark: SparkSession) -> bool:
    """Return whether tasks run in the process of the driver, so that the session has all slots from the start.

    Returns
    -------
    bool
        False for ``local-cluster`` too, whose executors are processes of their own.
    """
    master = spark.conf.get("spark.master", "") or ""
    return master == "local" or master.startswith("local[")


def task_slots(spark: SparkSession, *, wanted: int = 1) -> int:
    """Count the tasks that the cluster runs at a time, busy or not, on classic Spark and on Connect (tiny jobs).

    Spark's default parallelism over ``spark.task.cpus``. A cluster that is still growing, or one for which
    ``spark.default.parallelism`` was set, has more or fewer than this.

    Parameters
    ----------
    wanted : int
        Number of slots to wait for: if the cluster has fewer, its executors get 30 seconds to register.

    Returns
    -------
    int
        At least 1; may be less than `wanted`, or more.
    """
    deadline = None
    while (slots := _task_slots(spark)) < wanted and not is_local(spark):
        if deadline is None:
            deadline = time.monotonic() + _PATIENCE_S
            _LOG.info("%d of %d task slots are there: waiting for executors to register", slots, wanted)
        elif time.monotonic() > deadline:
            break
        time.sleep(_PAUSE_S)
    return slots


def _task_slots(spark: SparkSession) -> int:
    rows = spark.range(10_000).select(F.spark_partition_id().alias("partition"))
    cores = int(rows.agg(F.countDistinct("partition")).collect()[0][0])
    if cores == _LEAST_PARALLELISM and not is_local(spark) and _has_one_core(spark):
        cores = 1
    return max(1, cores // int(spark.conf.get("spark.task.cpus", "1") or 1))


def _has_one_core(spark: SparkSession) -> bool:
    """Return whether the only executor with room was started with one core, by the command line of its JVM."""
    command = F.try_reflect(F.lit("java.lang.System"), F.lit("getProperty"), F.lit("sun.java.command"))
    lines = {row[0] or "" for row in spark.range(0, 2, 1, 2).select(command).collect()}
    return len(lines) == 1 and "--cores 1 " in f"{lines.pop()} "
