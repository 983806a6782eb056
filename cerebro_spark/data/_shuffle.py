"""Order rows by the seed and their own content, and deal them one by one to the shards."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's users know

from udfs.shards import SPLITS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Deal"]


@dataclass(frozen=True, slots=True)
class Deal:
    """The shard and the place of each row.

    A row's place in the order of all is where the hash of its content and the seed has it, so the DataFrame's
    partitioning and order do not matter. Places, not hashes, are dealt: shards differ by one row at most, and equal
    rows, whose places follow each other, come to different shards.

    Parameters
    ----------
    buckets : tuple of int
        Rows of each bucket; the order goes through the buckets one by one.
    partitions : int
        Shards of each split.
    held : int
        Rows held out for validation, less than all.
    seed : int
        Of the order within a shard.

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
        """Count the rows that a shard is dealt."""
        total = self.held if split == SPLITS[1] else sum(self.buckets) - self.held
        return total // self.partitions + (partition < total % self.partitions)

    def dealt(self, rows: DataFrame, columns: list[str]) -> DataFrame:
        """Sort the rows into their shards.

        Parameters
        ----------
        rows : DataFrame
            Complete ones, with the columns ``bucket`` and ``key``.
        columns : list of str
            Those to keep.

        Returns
        -------
        DataFrame
            ``shard`` (those of validation follow those of training) and the columns; all rows of a shard in one
            partition of Spark's, in the order in which they are to be written.
        """
        total = sum(self.buckets)
        before = [0, *itertools.accumulate(self.buckets)][:-1]
        starts = F.array(*(F.lit(start).cast("bigint") for start in before))
        place = F.row_number().over(Window.partitionBy("bucket").orderBy("key")) - 1
        placed = rows.select(*columns, (F.element_at(starts, F.col("bucket") + 1) + place).alias("place"))
        # Those for validation are spread evenly over the order, in whole numbers: one at each step of this stair.
        placed = placed.withColumn("held", F.expr(f"(place * {self.held}L) div {total}L")).withColumn(
            "next", F.expr(f"((place + 1) * {self.held}L) div {total}L")
        )
        training = F.pmod(F.col("place") - F.col("held"), F.lit(self.partitions))
        validation = F.pmod(F.col("held"), F.lit(self.partitions)) + self.partitions
        shard = F.when(F.col("next") > F.col("held"), validation).otherwise(training).cast("int")
        # By place a shard would have equal rows side by side.
        turn = F.xxhash64(F.lit(self.seed).cast("bigint"), F.col("place"))
        return (
            placed.select(shard.alias("shard"), turn.alias("turn"), *columns)
            .repartition(2 * self.partitions, "shard")
            .sortWithinPartitions("shard", "turn")
            .select("shard", *columns)
        )
