"""Assignment of rows to shards in a pseudo-random order, by a hash of the seed and the content of each row.

A row's bucket is a remainder of its hash. Rows are ordered by bucket and then by hash, and a row's place is its number
in that order.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from udfs.shards import SPLITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

__all__ = ["ShardPlan"]


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """Assignment of rows to shards, and their order within each.

    The hash of its content and the seed decides a row's place among all rows, so the DataFrame's partitioning and order
    do not matter. The place, not the hash, decides the shard: the sizes of shards differ by one row at most, and equal
    rows, whose places are adjacent, go to different shards. ``buckets`` are the numbers of rows of the buckets, and
    ``validation_rows`` rows are for validation.

    Examples
    --------
    >>> plan = ShardPlan(buckets=(6, 5), partitions=2, validation_rows=3, seed=0)
    >>> [plan.count_rows(split, partition) for split in ("train", "validation") for partition in (0, 1)]
    [4, 4, 2, 1]
    """

    buckets: tuple[int, ...]
    partitions: int
    validation_rows: int
    seed: int

    def count_rows(self, split: str, partition: int) -> int:
        """Count the rows of a shard."""
        total = self.validation_rows if split == SPLITS[1] else sum(self.buckets) - self.validation_rows
        return total // self.partitions + (partition < total % self.partitions)

    def assign_rows(self, rows: DataFrame, columns: list[str], tie_breakers: Sequence[str] = ()) -> DataFrame:
        """Sort the rows into their shards.

        ``tie_breakers`` are columns that order rows with the same key; without any, such rows are equal. Return the
        columns ``shard`` (validation shards are numbered after training shards) and ``columns``. One Spark partition
        has all rows of a shard, in the order in which they are written.
        """
        total = sum(self.buckets)
        first_places = [0, *itertools.accumulate(self.buckets)][:-1]
        starts = F.array(*(F.lit(start).cast("bigint") for start in first_places))
        place = F.row_number().over(Window.partitionBy("bucket").orderBy("key", *tie_breakers)) - 1
        placed = rows.select(*columns, (F.element_at(starts, F.col("bucket") + 1) + place).alias("place"))
        # Spread the validation rows evenly: ``before`` is the number of them at lower places, and a row is one of them
        # if that number is larger at the next place.
        placed = placed.withColumn("before", F.expr(f"(place * {self.validation_rows}L) div {total}L")).withColumn(
            "next", F.expr(f"((place + 1) * {self.validation_rows}L) div {total}L")
        )
        training = F.pmod(F.col("place") - F.col("before"), F.lit(self.partitions))
        validation = F.pmod(F.col("before"), F.lit(self.partitions)) + self.partitions
        shard = F.when(F.col("next") > F.col("before"), validation).otherwise(training).cast("int")
        # In order of place, equal rows of a shard would be adjacent.
        turn = F.xxhash64(F.lit(self.seed).cast("bigint"), F.col("place"))
        return (
            placed.select(shard.alias("shard"), turn.alias("turn"), *columns)
            .repartition(2 * self.partitions, "shard")
            .sortWithinPartitions("shard", "turn")
            .select("shard", *columns)
        )
