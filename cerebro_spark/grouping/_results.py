"""Results of a search per group: tables of the store, and the packed models."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from cerebro_spark.errors import NoModelError
from cerebro_spark.grouping._model import GroupedModel
from cerebro_spark.grouping._tables import best_rows
from udfs.grouping import run_folder
from udfs.handlers import open_session, settings_kept
from udfs.inference import PortableNetwork
from udfs.shards import load_rows
from udfs.training import initial_seed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from cerebro_spark.hopper import Probed
    from udfs.grouping import GroupTraining

__all__ = ["pack_models"]

# Bytes of a row group: a worker reads those that its rows need.
_ROW_GROUP_BYTES = 4 << 20


def pack_models(spark: SparkSession, training: GroupTraining, probed: Probed, notes: Sequence[str]) -> GroupedModel:
    """Write the best model of each group and the networks of their configurations into one file.

    Raises
    ------
    NoModelError
        No group has a model.
    """
    store, folder = training.data.prepared.store, run_folder(training.run)
    place = store.url(*folder, "groups")
    results = spark.read.parquet(place)
    best = best_rows(results, larger_is_better=training.larger_is_better).where("status = 'finished'")
    used = sorted(row[0] for row in best.select("configuration").distinct().collect())
    if not used:
        first = results.where("reason is not null").select("key", "reason").first()
        raise NoModelError(
            f"data must have a group that can be trained, got none in run {training.run!r}. The first reason is: "
            f"{first['reason'] if first else 'there are no groups'}"
        )
    models = spark.read.parquet(store.url(*folder, "models"))
    weights = models.join(best.select("key", "configuration"), ["key", "configuration"], "left_semi")
    networks = spark.createDataFrame(
        [(None, number, bytearray(_network(training, number).data)) for number in used], models.schema
    )
    packed = store.url(*folder, "packed")
    together = networks.unionByName(weights.select(models.columns)).coalesce(1)
    together.sortWithinPartitions(F.col("key").asc_nulls_first()).write.mode("overwrite").option(
        "parquet.block.size", _ROW_GROUP_BYTES
    ).parquet(packed)
    prepared = training.data.prepared
    facts: dict[str, Any] = {
        "framework": probed.frameworks[0],
        "task": training.task.task.to_dict(),
        "inputs": [asdict(group) for group in prepared.inputs],
        "label": prepared.labels[0].name,
        "group_by": list(training.data.group_by),
        "types": list(training.data.types),
        "configurations": list(training.configurations),
        "larger_is_better": training.larger_is_better,
        "metric": training.metric,
        "run": training.run,
        "epochs": training.epochs,
        "notes": list(notes),
    }
    return GroupedModel(tuple(spark.read.parquet(packed).inputFiles()), place, facts)


def _network(training: GroupTraining, configuration: int) -> PortableNetwork:
    prepared = training.data.prepared
    with settings_kept():
        session = open_session(
            training.trainer_fn,
            training.configurations[configuration],
            initial_seed(training.seed, str(configuration)),
            weighted=prepared.weights is not None,
            data=prepared,
            by_group=True,
        )
        return PortableNetwork.of(session.model, session.read(load_rows(prepared, "train", 2).inputs))
