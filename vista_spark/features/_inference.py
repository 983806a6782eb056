"""A featurizer's pass over a column, for those who run it without a DataFrame: SQL functions and MLflow's models."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from udfs.inference import Combination, Combined, Inference, Reduction
from vista_spark.features._base import check_sum
from vista_spark.features._cnn import CNNFeaturizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vista_spark.features._base import NetworkFeaturizer
    from vista_spark.network import Network

__all__ = ["inference_of"]


def inference_of(stage: NetworkFeaturizer, net: Network, *, reads: Sequence[str], outputs: Sequence[str]) -> Inference:
    """Describe what a featurizer computes.

    Parameters
    ----------
    net : Network
        Network of the stage, with paths as the process that runs it reaches them.
    reads : sequence of str
        Columns that the network reads.
    outputs : sequence of str
        One per layer, from the bottom to the top; with ``combine`` one for all.

    Raises
    ------
    ColumnError
        ``combine="sum"`` of vectors of several lengths.
    """
    layers, combine = net.layers(stage.getLayers()), stage.getCombine()
    columns = outputs if combine is None else [f"{outputs[0]}_{place}" for place in range(len(layers))]
    features = tuple(net.feature(layer, name, stage.getPooling()) for layer, name in zip(layers, columns, strict=True))
    if combine == "sum":
        check_sum(net, layers, features)
    aggregation = stage.getImageAggregation() if isinstance(stage, CNNFeaturizer) else "mean"
    return Inference(
        source=net.source,
        feeds=net.feeds(*reads),
        features=features,
        materialised=(),
        batch_size=stage.getBatchSize(),
        device=stage.getDevice(),
        image_aggregation=cast("Reduction", aggregation),
        combined=None if combine is None else Combined(outputs[0], cast("Combination", combine)),
    )
