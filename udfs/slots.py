"""How many tasks run at a time, asked before a barrier stage is: Spark would look for missing slots for ten minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's users know

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["task_slots"]


def task_slots(spark: SparkSession) -> int:
    """Tasks that the cluster runs at a time, busy or not, on classic Spark and on Connect alike (one tiny job).

    Spark's default parallelism over ``spark.task.cpus``. A cluster that is still growing, or one for which
    ``spark.default.parallelism`` was set, has more or fewer than this.
    """
    rows = spark.range(10_000).select(F.spark_partition_id().alias("partition"))
    cores = int(rows.agg(F.countDistinct("partition")).collect()[0][0])
    return max(1, cores // int(spark.conf.get("spark.task.cpus", "1") or 1))
