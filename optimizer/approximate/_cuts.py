"""Cuts of a network at which device and cloud can share a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.approximate._variant import Split, split_place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optimizer.graph import Cut, LayerGraph

__all__ = ["SplitCut", "split_cuts"]

# Types of tensors that travel as Arrow tensors.
_SENT_TYPES = ("float", "int", "uint")


@dataclass(frozen=True, slots=True)
class SplitCut:
    """A cut, priced by its share on the device and the bytes that it sends.

    Attributes
    ----------
    prefix : float
        Share of the work on the device, above 0 and below 1: the larger one of the shares of FLOPs and of parameters,
        because a `Split` has one number for both.
    cut : optimizer.graph.Cut
        Layers of the prefix, and the tensors to send.
    """

    prefix: float
    cut: Cut

    @property
    def place(self) -> str:
        """Place of the option, as in ``Option.place``."""
        return split_place(self.prefix)

    def split(self, joules_per_kb_sent: float) -> Split:
        """Return the split for a `Variant`, with the energy to send the tensors."""
        return Split(self.prefix, self.cut.live_bytes / 1e3 * joules_per_kb_sent)


def split_cuts(graph: LayerGraph) -> tuple[SplitCut, ...]:
    """Return the cuts that no other one beats in both the share on the device and the bytes sent.

    Considered are the cut below each layer with all layers that it needs, and the cut after each layer in topological
    order, which also separates parallel branches.

    Parameters
    ----------
    graph : LayerGraph
        Layers of the network.

    Returns
    -------
    tuple of SplitCut
        The front. The share on the device increases, and the bytes decrease.

    Examples
    --------
    >>> from optimizer.graph import Layer, LayerGraph
    >>> layers = [
    ...     Layer("x", "input", output_shape=(8,)),
    ...     Layer("wide", "linear", ("x",), (16,), flops=256),
    ...     Layer("narrow", "linear", ("wide",), (4,), flops=128),
    ...     Layer("scores", "linear", ("narrow",), (2,), flops=16),
    ... ]
    >>> [(cut.place, cut.cut.live_bytes) for cut in split_cuts(LayerGraph(layers, ["scores"]))]
    [('split 0.64', 64), ('split 0.96', 16)]
    """
    total_flops, total_bytes = max(1, graph.flops()), max(1, graph.param_bytes())
    priced = []
    for cut in _cuts(graph):
        share = max(graph.flops(cut.below) / total_flops, graph.param_bytes(cut.below) / total_bytes)
        tensors = [graph[name] for name in cut.live]
        if 0 < share < 1 and all(each.output_shape and each.dtype.startswith(_SENT_TYPES) for each in tensors):
            priced.append(SplitCut(share, cut))
    front: list[SplitCut] = []
    for entry in sorted(priced, key=lambda entry: (entry.prefix, entry.cut.live_bytes)):
        if not front or (entry.cut.live_bytes < front[-1].cut.live_bytes and entry.place != front[-1].place):
            front.append(entry)
    return tuple(front)


def _cuts(graph: LayerGraph) -> Iterator[Cut]:
    """Yield the cuts, none twice."""
    seen: set[frozenset[str]] = set()
    for place, name in enumerate(graph.names):
        for at in ((name,), graph.names[: place + 1]):
            cut = graph.cut(at)
            if frozenset(cut.below) not in seen:
                seen.add(frozenset(cut.below))
                yield cut
