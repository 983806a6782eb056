"""FLOPs of training a layer: c_comp of Nautilus, section 4.1."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optimizer.graph import LayerGraph

__all__ = ["FORWARD", "THROUGH", "TRAINED", "passes", "training_flops"]

FORWARD, THROUGH, TRAINED = 1, 2, 3


def passes(graph: LayerGraph) -> dict[str, int]:
    """Count the passes of each layer in a training step, in units of its forward pass.

    Returns
    -------
    dict of str to int
        3 for a trainable layer, with its input and parameter gradients; 2 for a frozen layer above a trainable one,
        with its input gradient; 1 for any other layer. A layer above one that only draws random numbers has no
        gradient, and counts 1 instead of the paper's 2.

    Examples
    --------
    >>> from optimizer.graph import Layer, LayerGraph
    >>> layers = [Layer("x", "input"), Layer("a", "fc", ("x",)), Layer("b", "fc", ("a",), frozen=False)]
    >>> passes(LayerGraph([*layers, Layer("c", "relu", ("b",))], ["c"]))
    {'x': 1, 'a': 1, 'b': 3, 'c': 2}
    """
    count: dict[str, int] = {}
    for layer in graph:
        if layer.op != "input" and not layer.frozen:
            count[layer.name] = TRAINED
        else:
            count[layer.name] = THROUGH if any(count[source] > FORWARD for source in layer.inputs) else FORWARD
    return count


def training_flops(graph: LayerGraph) -> dict[str, int]:
    """Return the training FLOPs of each layer for one record: its passes times its forward FLOPs."""
    return {name: count * graph[name].flops for name, count in passes(graph).items()}
