"""Spark pass of a stage of a logical plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from udfs.arrow import RowMap, RowPolicy
from udfs.driver import map_rows
from udfs.handlers import TensorSpec
from udfs.inference import Feature, Inference, Materialised, TensorFeed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from optimizer.transfer import InferenceStage
    from udfs.inference import Feed, Pooling, Reduction
    from vista_spark.network import Network

__all__ = ["ERROR", "feature_column", "run_stage", "stage_inference"]

ERROR = "image_error"
"""Column with the reason why a row's image or text is bad; null for a good row."""


def feature_column(layer: str) -> str:
    """Return the name of the column of a layer's features."""
    return f"transfer_feature_{layer}".replace(".", "_")


def _live_column(layer: str) -> str:
    return f"transfer_live_{layer}".replace(".", "_")


def stage_inference(
    network: Network,
    stage: InferenceStage,
    *,
    image: str,
    keep: tuple[str, ...],
    pooling: Pooling,
    batch_size: int,
    device: str,
    image_aggregation: Reduction | None = None,
) -> RowMap:
    """Build the pass of a stage, over a table of images or over the tensors that its source wrote.

    ``image`` is the column of the images, or of other inputs of the network; ``keep`` columns pass through. Without
    ``image_aggregation`` a record has one image.
    """
    graph = network.graph
    feeds: tuple[Feed, ...]
    if stage.source is None:
        feeds = network.feeds(image)
    else:
        feeds = tuple(
            TensorFeed(
                _live_column(name),
                name,
                TensorSpec(graph[name].output_shape, graph[name].dtype),
                ragged=image_aggregation is not None,
            )
            for name in stage.reads
        )
    inference = Inference(
        source=network.source,
        feeds=feeds,
        features=tuple(
            Feature(name, feature_column(name), pooling, network.layout(name, pooling)) for name in stage.targets
        ),
        materialised=tuple(Materialised(name, _live_column(name)) for name in stage.writes),
        batch_size=batch_size,
        device=device,
        image_aggregation=image_aggregation or "mean",
    )
    return RowMap(inference, keep, RowPolicy("null", ERROR, network.reads.error))


def run_stage(table: DataFrame, stage: InferenceStage, rows: RowMap) -> DataFrame:
    """Run a stage, lazily; only the good rows of its source go in."""
    if stage.source is not None:
        table = table.where(F.col(ERROR).isNull()).drop(ERROR)
    return map_rows(table, rows)
