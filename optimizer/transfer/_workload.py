"""Workload of a logical plan, as the memory model takes it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from optimizer.memory import LayerSize, TransferWorkload

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.graph import LayerGraph
    from optimizer.memory import Downstream, ModelFootprint
    from optimizer.transfer._logical_plans import LogicalPlan

__all__ = ["size_workload"]

_FLOAT32 = 4


def size_workload(
    graph: LayerGraph,
    plan: LogicalPlan,
    model: ModelFootprint,
    downstream: Downstream,
    *,
    structured_rows: int,
    structured_features: int,
    image_bytes: int,
    features: Mapping[str, int] | None = None,
) -> TransferWorkload:
    """Compute the workload of a logical plan over a traced network.

    The targets of ``plan`` are the layers. ``features`` are lengths of the float32 vectors after pooling, by target; a
    target without a length keeps its whole output. The others are fields of :class:`optimizer.memory.TransferWorkload`.

    Raises
    ------
    optimizer.errors.UnknownLayerError
        A target that the graph does not have.

    Examples
    --------
    >>> from optimizer.graph import Layer, LayerGraph
    >>> from optimizer.memory import Downstream, ModelFootprint
    >>> from optimizer.transfer import plan_layers
    >>> graph = LayerGraph(
    ...     [
    ...         Layer("image", "input", output_shape=(3, 8, 8)),
    ...         Layer("conv", "conv2d", ("image",), (4, 8, 8)),
    ...         Layer("fc", "Linear", ("conv",), (10,)),
    ...     ],
    ...     ["fc"],
    ... )
    >>> workload = size_workload(
    ...     graph,
    ...     plan_layers(graph, ["conv", "fc"], "staged"),
    ...     ModelFootprint(4000, 100_000),
    ...     Downstream.logistic_regression(),
    ...     structured_rows=100,
    ...     structured_features=5,
    ...     image_bytes=300,
    ...     features={"conv": 16},
    ... )
    >>> for layer in workload.layers:
    ...     print(layer)
    LayerSize(name='conv', tensor_bytes=64, features=16, carried_bytes=1024, same_pass=False)
    LayerSize(name='fc', tensor_bytes=40, features=10, carried_bytes=0, same_pass=False)
    """
    pooled = features or {}
    layers = []
    for stage in plan.stages:
        for place, target in enumerate(stage.targets):
            whole = graph[target]
            length = pooled.get(target, math.prod(whole.output_shape))
            kept = _FLOAT32 * length if target in pooled else whole.activation_bytes
            # A stage carries its writes once, however many layers it delivers.
            carried = 0 if place else stage.write_bytes
            layers.append(LayerSize(plan.names.get(target, target), kept, length, carried, place > 0))
    return TransferWorkload(
        structured_rows,
        structured_features,
        tuple(layers),
        image_bytes,
        model,
        downstream,
        sum(graph[name].activation_bytes for name in graph.inputs),
    )
