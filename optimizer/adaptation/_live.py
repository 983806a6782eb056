"""Live tensors of a training step: Nautilus, section 4.3.3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.adaptation._training import FORWARD, passes

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from optimizer.graph import LayerGraph

__all__ = ["LiveTensors", "live_tensors"]

_LOSS = ("loss", "")


@dataclass(frozen=True, slots=True)
class LiveTensors:
    """Bytes of live tensors along a training step, for one record. Made by :func:`live_tensors`.

    Attributes
    ----------
    forward : int
        The most while a forward node is processed.
    at_loss : int
        While the loss is.
    backward : int
        The most while a backward node is.
    """

    forward: int
    at_loss: int
    backward: int

    @property
    def peak(self) -> int:
        """The most of the whole step."""
        return max(self.forward, self.at_loss, self.backward)


def live_tensors(
    graph: LayerGraph,
    have: Collection[str] = (),
    *,
    held_elsewhere: bool = False,
    forward: Sequence[str] | None = None,
    backward: Sequence[str] | None = None,
) -> LiveTensors:
    r"""Traverse the forward layers, the loss and the backward layers, and count what is live at each.

    A layer that a gradient reaches has a backward node of its own size. That node reads the layer's output, the layer's
    inputs and the gradients of the layers above. The inputs and the output of the node being processed are live, and
    so is all that a later node reads. A composite layer counts ``inner_bytes``, a layer without gradient its output.
    The loss itself counts nothing: it is one number.

    **Is the peak "only one more than at the loss"**, as the paper claims for every order? Of the backward pass it is
    true. When the node l' is processed, the gradients of all readers of l are done, for l' reads them. So l' is the
    last that reads l, and l is released after it: each step adds l' and takes away l, of the same size. Hence what is
    live *after* a backward node is never more than at the loss, and *at* one never more than that and the node itself.

    Of the whole step it is false. The claim rests on what is live only growing up to the loss, which holds for layers
    with a gradient. Those without one are released on the way. Ten frozen layers of one input, added up and read by a
    small head, are eleven live tensors at the addition and two at the loss.

    Parameters
    ----------
    graph : LayerGraph
        A model, or several in one graph: their losses then are one barrier, as in the paper.
    have : collection of str
        Tensors at hand; by default the graph's inputs. They are live from the start to their last reader.
    held_elsewhere : bool
        Count nothing for ``have``: somebody else holds those tensors anyway.
    forward, backward : sequence of str, optional
        Topological orders; by default the graph's and its reverse.

    Returns
    -------
    LiveTensors

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
    given = set(have) or set(graph.inputs)
    layers = graph.part(given, graph.outputs).layers
    running = set(layers)
    learning = {name for name in layers if count[name] > FORWARD}

    def size(node: tuple[str, str]) -> int:
        kind, name = node
        if node == _LOSS or (name in given and held_elsewhere):
            return 0
        return graph[name].inner_bytes if name in learning or kind == "scratch" else graph[name].activation_bytes

    steps = [("forward", name) for name in (layers if forward is None else forward) if name in running]
    steps.append(_LOSS)
    order = reversed(layers) if backward is None else backward
    steps += [("backward", name) for name in order if name in learning]

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
    live = sum(size(("forward", name)) for name in given if ("forward", name) in last)
    most = {"forward": live, "loss": 0, "backward": 0}
    for place, node in enumerate(steps):
        live += size(node)
        # What a composite layer without gradient makes inside is gone once it is through.
        scratch = size(("scratch", node[1])) - size(node) if node[0] == "forward" else 0
        most[node[0]] = max(most[node[0]], live + scratch)
        live -= sum(size(ended) for ended in ends.get(place, ()))
    return LiveTensors(most["forward"], most["loss"], most["backward"])
