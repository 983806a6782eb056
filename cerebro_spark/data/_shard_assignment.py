"""Assignment of records to shards by a hash of their id in Spark, with hashes of their features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from udfs.shards import HELD_OF

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

__all__ = ["with_places"]


def with_places(
    rows: DataFrame, features: Sequence[Column], num_shards: int, test_fraction: float, seed: int
) -> DataFrame:
    """Add the place of each record, as :func:`udfs.shards.place_of` computes it.

    Parameters
    ----------
    rows : DataFrame
        Rows with a column ``id`` of strings.
    features : sequence of Column
        Encoded features.
    num_shards, test_fraction, seed
        Settings of the data.

    Returns
    -------
    DataFrame
        Rows with ``turn``, the sort key within a shard; ``bucket``, the number of the shard, with validation shards
        after training shards, null without an id; and ``features``, a hash.
    """
    turn = F.sha2(F.concat(F.lit(f"{seed}|"), F.col("id")), 256)
    is_validation = F.conv(F.substring("turn", 1, 8), 16, 10).cast("bigint") < round(test_fraction * HELD_OF)
    shard = F.pmod(F.conv(F.substring("turn", 9, 8), 16, 10).cast("bigint"), F.lit(num_shards))
    return (
        rows.withColumn("turn", turn)
        .withColumn("features", F.xxhash64(*features))
        .withColumn("bucket", (shard + F.when(is_validation, num_shards).otherwise(0)).cast("int"))
    )
