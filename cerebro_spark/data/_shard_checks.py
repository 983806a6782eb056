"""Check the shards of prepared data on the workers, all at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from udfs.shards import PreparedData, ShardError, check_shard

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import SparkSession

__all__ = ["damaged_shards"]


def damaged_shards(spark: SparkSession, prepared: PreparedData) -> list[str]:
    """Read every shard once, on the workers, and describe those that are not what was prepared."""
    numbers = spark.range(0, len(prepared.shards), numPartitions=max(1, len(prepared.shards)))
    return sorted(row["defect"] for row in numbers.mapInArrow(_Check(prepared), "defect string").collect())


@dataclass(frozen=True, slots=True)
class _Check:
    prepared: PreparedData

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            defects = []
            for number in batch.column(0).to_pylist():
                shard = self.prepared.shards[number]
                try:
                    check_shard(self.prepared, shard.split, shard.partition)
                except ShardError as error:
                    defects.append(str(error))
            yield pa.RecordBatch.from_pydict({"defect": pa.array(defects, pa.string())})
