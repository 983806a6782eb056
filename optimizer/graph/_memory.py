"""Peak memory of the activations of a forward pass."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from optimizer.graph._graph import LayerGraph

__all__ = ["peak_live_bytes"]


def peak_live_bytes(
    graph: LayerGraph,
    have: Iterable[str] = (),
    want: Iterable[str] | None = None,
) -> int:
    """Compute the peak bytes of live activations while ``want`` is computed from ``have``, for one record.

    Live tensors are counted along the traversal (Nautilus, section 4.3.3, forward pass). Tensors of ``have`` that are
    used are live from the start. While a layer runs, its inputs and its output are live together. A tensor is freed
    after its last consumer, unless it is wanted. What a composite layer makes inside (``inner_bytes``) is live while
    it runs; other scratch space within a layer is not counted.

    Parameters
    ----------
    graph : LayerGraph
        The network.
    have : iterable of str
        Materialised tensors; by default the graph's inputs.
    want : iterable of str, optional
        Tensors to compute; by default the graph's outputs.

    Returns
    -------
    int
        Bytes for one record.

    Raises
    ------
    UnknownLayerError
        A name that the graph does not have.
    GraphError
        ``want`` cannot be computed from ``have``.

    Examples
    --------
    >>> from optimizer.graph import Layer, LayerGraph
    >>> graph = LayerGraph(
    ...     [Layer("x", "input", (), (10,)), Layer("y", "fc", ("x",), (30,)), Layer("z", "fc", ("y",), (20,))], ["z"]
    ... )
    >>> peak_live_bytes(graph)
    200
    """
    sources = graph.resolve(have) or graph.inputs
    part = graph.part(sources, graph.outputs if want is None else want)
    uses = Counter(source for name in part.layers for source in set(graph[name].inputs))
    uses.update(part.outputs)
    live = sum(graph[name].activation_bytes for name in part.inputs)
    peak = live
    for name in part.layers:
        peak = max(peak, live + graph[name].inner_bytes)
        live += graph[name].activation_bytes
        for source in set(graph[name].inputs):
            uses[source] -= 1
            if uses[source] == 0:
                live -= graph[source].activation_bytes
    return peak
