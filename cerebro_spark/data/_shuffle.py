"""Order rows by a hash of the seed and their content, and deal them one by one to the shards."""

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

__all__ = ["Deal"]


@dataclass(frozen=True, slots=True)
class Deal:
    """Assignment of rows to shards, and their order within each.

    The hash of its content and the seed decides a row's place among all rows, so the DataFrame's partitioning and order
    do not matter. Shards are dealt by place, not by hash: their sizes differ by one row at most, and equal rows, whose
    places are adjacent, go to different shards. ``buckets`` are the rows of each bucket, by which rows are ordered
    first; ``held`` rows are for validation.

    Examples
    --------
    >>> deal = Deal(buckets=(6, 5), partitions=2, held=3, seed=0)
    >>> deal.rows("train", 0), deal.rows("train", 1), deal.rows("validation", 0), deal.rows("validation", 1)
    (4, 4, 2, 1)
    """

    buckets: tuple[int, ...]
    partitions: int
    held: int
    seed: int

    def rows(self, split: str, partition: int) -> int:
        """Count the rows of a shard."""
        total = self.held if split == SPLITS[1] else sum(self.buckets) - self.held
        return total // self.partitions + (partition < total % self.partitions)

    def dealt(self, rows: DataFrame, columns: list[str], ties: Sequence[str] = ()) -> DataFrame:
        """Sort the rows into their shards.

        ``ties`` are columns that order rows with the same key; without any, such rows are equal. Return ``shard``
        (validation shards are numbered after training shards) and ``columns``. One Spark partition holds all rows of a
        shard, in the order in which they are written.
        """
        total = sum(self.buckets)
        before = [0, *itertools.accumulate(self.buckets)][:-1]
        starts = F.array(*(F.lit(start).cast("bigint") for start in before))
        place = F.row_number().over(Window.partitionBy("bucket").orderBy("key", *ties)) - 1
        placed = rows.select(*columns, (F.element_at(starts, F.col("bucket") + 1) + place).alias("place"))
        # Spread the validation rows evenly: a row is held out where this step function of its place rises.
        placed = placed.withColumn("held", F.expr(f"(place * {self.held}L) div {total}L")).withColumn(
            "next", F.expr(f"((place + 1) * {self.held}L) div {total}L")
        )
        training = F.pmod(F.col("place") - F.col("held"), F.lit(self.partitions))
        validation = F.pmod(F.col("held"), F.lit(self.partitions)) + self.partitions
        shard = F.when(F.col("next") > F.col("held"), validation).otherwise(training).cast("int")
        # In order of place, equal rows of a shard would be adjacent.
        turn = F.xxhash64(F.lit(self.seed).cast("bigint"), F.col("place"))
        return (
            placed.select(shard.alias("shard"), turn.alias("turn"), *columns)
            .repartition(2 * self.partitions, "shard")
            .sortWithinPartitions("shard", "turn")
            .select("shard", *columns)
        )
