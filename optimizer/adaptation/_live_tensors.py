"""Live tensors of a training step (Nautilus, section 4.3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.adaptation._training import FORWARD, passes

if TYPE_CHECKING:
    from collections.abc import Collection

    from optimizer.graph import LayerGraph

__all__ = ["LiveTensors", "live_tensors"]

_LOSS = ("loss", "")


@dataclass(frozen=True, slots=True)
class LiveTensors:
    """Bytes of live tensors along a training step for one record, as :func:`live_tensors` counts them.

    ``forward`` and ``backward`` are the largest numbers while a node of that pass is processed, ``at_loss`` that at the
    loss.
    """

    forward: int
    at_loss: int
    backward: int

    @property
    def peak(self) -> int:
        """Largest number of the whole step."""
        return max(self.forward, self.at_loss, self.backward)


def live_tensors(
    graph: LayerGraph,
    have: Collection[str] = (),
    *,
    held_elsewhere: bool = False,
) -> LiveTensors:
    """Traverse the forward layers, the loss and the backward layers, and count the live bytes at each.

    A layer that a gradient reaches has a backward node of its own size, which reads the layer's output, the layer's
    inputs and the gradients of the layers above. The inputs and the output of the processed node are live, and so are
    all tensors that a later node reads. A composite layer counts ``inner_bytes``, a layer without a gradient its
    output. The loss is a single number and counts nothing.

    The paper states that the peak is at most one tensor above the number at the loss, in every order. This holds for
    the backward pass: each of its steps adds a gradient and releases a tensor of the same size. It does not hold for
    the forward pass, in which layers without a gradient are released. Ten frozen layers of one input, added up and read
    by a small head, are eleven live tensors at the addition and two at the loss.

    Parameters
    ----------
    graph : LayerGraph
        Model.
    have : collection of str
        Available tensors, which are live from the start to their last reader; by default the graph's inputs.
    held_elsewhere : bool
        Whether ``have`` is counted elsewhere, and not here. Default false.

    Examples
    --------
    Frozen layers of 10 x 8 bytes, their sum, and a head that learns:

    >>> from optimizer.graph import Layer, LayerGraph
    >>> wide = [Layer(f"f{i}", "fc", ("x",), (2,)) for i in range(10)]
    >>> top = [Layer("add", "add", tuple(f"f{i}" for i in range(10)), (2,)), Layer("y", "fc", ("add",), frozen=False)]
    >>> graph = LayerGraph([Layer("x", "input", (), (2,)), *wide, *top], ["y"])
    >>> live_tensors(graph)
    LiveTensors(forward=88, at_loss=12, backward=16)
    """
    count = passes(graph)
    sources_at_hand = set(have) or set(graph.inputs)
    layers = graph.part(sources_at_hand, graph.outputs).layers
    learning = {name for name in layers if count[name] > FORWARD}

    def size(node: tuple[str, str]) -> int:
        kind, name = node
        if node == _LOSS or (name in sources_at_hand and held_elsewhere):
            return 0
        return graph[name].inner_bytes if name in learning or kind == "scratch" else graph[name].activation_bytes

    steps = [("forward", name) for name in layers]
    steps.append(_LOSS)
    steps += [("backward", name) for name in reversed(layers) if name in learning]

    def reads(node: tuple[str, str]) -> list[tuple[str, str]]:
        kind, name = node
        if kind == "loss":
            return [("forward", output) for output in graph.outputs]
        sources = [("forward", source) for source in dict.fromkeys(graph[name].inputs)]
        if kind == "forward":
            return sources
        above = [("backward", reader) for reader in graph.consumers(name) if reader in learning]
        return [("forward", name), *sources, *above, *([_LOSS] if name in graph.outputs else [])]

    last: dict[tuple[str, str], int] = {}
    for place, node in enumerate(steps):
        last |= dict.fromkeys([node, *reads(node)], place)
    ends: dict[int, list[tuple[str, str]]] = {}
    for node, place in last.items():
        ends.setdefault(place, []).append(node)
    live = sum(size(("forward", name)) for name in sources_at_hand if ("forward", name) in last)
    most = {"forward": live, "loss": 0, "backward": 0}
    for place, node in enumerate(steps):
        live += size(node)
        # A composite layer without a gradient releases its inner tensors at its end.
        scratch = size(("scratch", node[1])) - size(node) if node[0] == "forward" else 0
        most[node[0]] = max(most[node[0]], live + scratch)
        live -= sum(size(ended) for ended in ends.get(place, ()))
    return LiveTensors(most["forward"], most["loss"], most["backward"])
