"""Where Spark puts the record of an id, and how it knows whether its features are those that it had."""

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
    """Add the place of each record: the same as :func:`udfs.shards.place_of`.

    Parameters
    ----------
    rows : DataFrame
        With a column ``id`` of strings.
    features : sequence of Column
        As they are encoded.
    num_shards, test_fraction, seed
        Of the data.

    Returns
    -------
    DataFrame
        With ``turn``, by which the records of a shard are sorted; ``bucket``, the number of the shard, those of the
        validation split after those for training, null without an id; and ``features``, a hash.
    """
    turn = F.sha2(F.concat(F.lit(f"{seed}|"), F.col("id")), 256)
    held = F.conv(F.substring("turn", 1, 8), 16, 10).cast("bigint") < round(test_fraction * HELD_OF)
    shard = F.pmod(F.conv(F.substring("turn", 9, 8), 16, 10).cast("bigint"), F.lit(num_shards))
    return (
        rows.withColumn("turn", turn)
        .withColumn("features", F.xxhash64(*features))
        .withColumn("bucket", (shard + F.when(held, num_shards).otherwise(0)).cast("int"))
    )
