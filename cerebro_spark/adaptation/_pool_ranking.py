"""Ranking of records without labels by their value for training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, StructField, StructType

from cerebro_spark.adaptation._jobs import collect_rows
from cerebro_spark.data import choose_features, with_places
from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.hopper import uses_slots
from optimizer.arguments import one_of
from udfs.adaptation import LabelledCoreSet, LabelledIds, PoolCoreSet, PoolPass, PoolUncertainty, farthest_first
from udfs.driver import check_absent, check_present, quoted
from udfs.inference import UNCERTAINTIES

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from cerebro_spark.adaptation._cycle import Cycle
    from cerebro_spark.adaptation._stored_layers import StoredLayers
    from udfs.shards import GrowingData

__all__ = ["PoolRanking", "check_how", "rank_at_random"]

_HOW = (*UNCERTAINTIES, "diversity", "random")

# Default number of records by diversity.
_ASKED = 100

# Largest number of labelled records that diversity compares with; more are reduced to a cover of this size.
_LABELLED = 4096

_SCORE = "score"
_PICKED = "cerebro_spark_picked"


def check_how(how: str, limit: int | None) -> None:
    """Validate the arguments of :meth:`Adaptation.score`.

    Raises
    ------
    InvalidArgumentError
        ``how`` or ``limit`` is not allowed.
    """
    one_of("how", how, _HOW)
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise InvalidArgumentError(f"limit must be an integer of at least 1 or None, got {limit!r}")


@dataclass(frozen=True, slots=True)
class PoolRanking:
    """Ranking of pools by the best model of a cycle."""

    cycle: Cycle
    layers: StoredLayers
    stored: tuple[str, ...]
    seed: int

    def rank(self, pool: DataFrame, how: str, limit: int | None) -> DataFrame:
        """Add a column ``score`` and sort by it; see :meth:`Adaptation.score`."""
        check_absent(pool, [_SCORE], "drop it")
        data = self.layers.data
        if how == "diversity":
            _check_id(pool, data.id_column)
            return _ordered(self._covering(_without_labelled(pool, data), _ASKED if limit is None else limit), limit)
        model = self.cycle.best_model
        if data.id_column not in pool.columns:
            # Layers of records without ids cannot be stored, but the records can be ranked.
            return _ordered(model.uncertainty(pool, how), limit)
        uncertainty, new = model.output_uncertainty(how), _without_labelled(pool, data)
        if not self.stored:
            return _ordered(model.uncertainty(new, how), limit)
        source, rows = self._pass(new)
        task = PoolUncertainty(source, uncertainty, tuple(pool.columns), _SCORE)
        schema = StructType([*pool.schema.fields, StructField(_SCORE, DoubleType())])
        return _ordered(rows.mapInArrow(task, schema), limit)

    def _covering(self, pool: DataFrame, count: int) -> DataFrame:
        """Choose records that cover the pool, first in each shard on the executors, then on the driver.

        The driver holds `count` vectors of each shard and 4,096 of labelled records, with 128 numbers each.
        """
        source, rows = self._pass(pool)
        data, spark = self.layers.data, pool.sparkSession
        shards = 2 * data.num_shards
        with uses_slots(spark):
            few = LabelledCoreSet(source, max(1, _LABELLED // shards), self.seed)
            _, centres = _core(spark.range(0, shards, 1, shards).mapInArrow(few, few.schema))
            chosen = PoolCoreSet(source, centres, count, self.seed)
            ids, vectors = _core(rows.mapInArrow(chosen, chosen.schema))
        places, distances = farthest_first(vectors, centres, count)
        scores: dict[str, float] = {}
        for place, distance in zip(places.tolist(), distances.tolist(), strict=True):
            scores.setdefault(ids[place], distance)
        picked = spark.createDataFrame(list(scores.items()), f"{_PICKED} string, {_SCORE} double")
        record_id = F.col(quoted(data.id_column)).cast("string")
        return pool.join(F.broadcast(picked), record_id == F.col(_PICKED), "inner").drop(_PICKED)

    def _pass(self, pool: DataFrame) -> tuple[PoolPass, DataFrame]:
        """Assign the rows of a pool to the shards of their ids, in the order of labelled rows."""
        layers, data = self.layers, self.layers.data
        sources = choose_features(pool, data.inputs)
        columns = [F.col(f"c{place}") for place in range(len(sources))]
        encoded = pool.select(
            F.col(quoted(data.id_column)).cast("string").alias("id"),
            *(source.encoded.alias(f"c{place}") for place, source in enumerate(sources)),
            *(F.col(quoted(name)).alias(f"k{place}") for place, name in enumerate(pool.columns)),
        )
        placed = with_places(encoded, columns, data.num_shards, data.test_fraction, data.seed)
        rows = (
            placed.withColumn("bucket", F.coalesce("bucket", F.lit(2 * data.num_shards)))
            .repartition(2 * data.num_shards, "bucket")
            .sortWithinPartitions("bucket", "turn", "id")
            .select("bucket", "id", "features", *columns, *(f"k{place}" for place in range(len(pool.columns))))
        )
        source = PoolPass(
            self.cycle.best_for_workers(layers.candidates.opener),
            data,
            layers.features,
            layers.workload.params_with(self.stored),
            layers.room() // (2 * data.num_shards),
            tuple(source.name for source in sources if source.kind == "image"),
            layers.workload.batch_size,
            layers.backend.threads_per_worker,
            layers.augmenter is not None,
        )
        return source, rows


def rank_at_random(
    pool: DataFrame, limit: int | None, *, data: GrowingData | None, id_column: str, seed: int
) -> DataFrame:
    """Rank by lot, which takes no model: the lot follows from the seed and the id."""
    check_absent(pool, [_SCORE], "drop it")
    _check_id(pool, id_column)
    new = pool if data is None else _without_labelled(pool, data)
    lot = F.xxhash64(F.lit(seed).cast("bigint"), F.col(quoted(id_column)).cast("string"))
    # Convert the 64 bits to a number from 0 to 1.
    return _ordered(new.withColumn(_SCORE, lot / F.lit(2.0**64) + F.lit(0.5)), limit)


def _check_id(pool: DataFrame, id_column: str) -> None:
    """Validate that a pool has ids."""
    check_present(pool, [id_column], "records of a pool need ids")


def _ordered(scored: DataFrame, limit: int | None) -> DataFrame:
    ordered = scored.orderBy(F.col(_SCORE).desc_nulls_last())
    return ordered if limit is None else ordered.limit(limit)


def _without_labelled(pool: DataFrame, data: GrowingData) -> DataFrame:
    """Drop labelled records by their ids."""
    shards = 2 * data.num_shards
    labelled = pool.sparkSession.range(0, shards, 1, shards).mapInArrow(LabelledIds(data), LabelledIds.schema)
    record_id = F.col(quoted(data.id_column)).cast("string")
    return pool.join(labelled, record_id == F.col(LabelledIds.column), "left_anti")


def _core(job: DataFrame) -> tuple[list[str], NDArray[np.float32]]:
    """Collect ids and vectors in a deterministic order."""
    rows = sorted(collect_rows(job), key=lambda row: (row["bucket"], row["place"]))
    vectors = np.array([row["vector"] for row in rows] or np.empty((0, 0)), np.float32)
    return [row["id"] for row in rows], vectors
