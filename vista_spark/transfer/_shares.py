"""Shares of the cost of a pass by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optimizer.graph import LayerGraph
    from optimizer.transfer import InferenceStage

__all__ = ["flops_by_target"]


def flops_by_target(graph: LayerGraph, stage: InferenceStage) -> dict[str, int]:
    """Split a pass's FLOPs per record over the layers that it delivers: each gets what it needs beyond those before it.

    Return FLOPs by target, in the stage's order; together they are ``stage.flops``.

    Examples
    --------
    >>> from optimizer.graph import Layer, LayerGraph
    >>> from optimizer.transfer import plan_layers
    >>> chain = LayerGraph(
    ...     [
    ...         Layer("image", "input", output_shape=(4,)),
    ...         Layer("fc7", "Linear", ("image",), (2,), flops=16),
    ...         Layer("fc8", "Linear", ("fc7",), (1,), flops=4),
    ...     ],
    ...     ["fc8"],
    ... )
    >>> (stage,) = plan_layers(chain, ["fc7", "fc8"], "eager").stages
    >>> flops_by_target(chain, stage)
    {'fc7': 16, 'fc8': 4}
    """
    remaining = set(stage.runs)
    shares = {}
    for target in stage.targets:
        needed = remaining & {target, *graph.ancestors([target])}
        shares[target] = graph.flops(needed)
        remaining -= needed
    # What a pass computes for later ones alone goes with its last layer.
    shares[stage.targets[-1]] += graph.flops(remaining)
    return shares
