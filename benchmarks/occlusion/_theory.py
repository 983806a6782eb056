"""Figure 6.3: theoretical speed-ups of incremental inference; and Figure 6.7's, with projective field thresholding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.harness.charts import lines, panels
from benchmarks.harness.weights import card_of
from optimizer.occlusion import OcclusionGrid, update_patches
from udfs.handlers import framework
from udfs.incremental import buckets
from vista_spark import roster

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from benchmarks.harness.report import Report
    from benchmarks.occlusion._options import Options
    from optimizer.graph import LayerGraph
    from optimizer.occlusion import UpdatePatches

__all__ = ["SEEDS_TAUS", "theory", "thresholded", "unweighted"]

SEEDS_TAUS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4)
"""Of Figures 6.7, 6.9 and 6.12."""

_PATCHES = (4, 8, 16, 32, 64)
_BUCKETS = (1, 2, 4, 6, 8)

# The figures' bars are not in print as numbers; the text has these.
_SEEDS = {"vgg16": "the highest", "inception_v3": "2"}


def unweighted(name: str) -> LayerGraph:
    """The layers of a network, rewritten as an explanation does where it is not of the roster."""
    card, torch = card_of(name), framework("torch")
    inputs = list(card.preprocessing.inputs)
    if roster.is_shipped(name):
        return torch.trace(card.skeleton(), inputs).graph
    return torch.trace(roster.load(card), inputs).fused().graph  # type: ignore[attr-defined]


def thresholded(name: str, graph: LayerGraph, patch: int, stride: int, tau: float = 1.0) -> UpdatePatches:
    """The update patches of a network at a grid.

    Parameters
    ----------
    name : str
    graph : LayerGraph
        Of :func:`unweighted`.
    patch, stride : int
    tau : float
    """
    image = (card_of(name).preprocessing.crop,) * 2
    return update_patches(graph, OcclusionGrid(image, (patch,) * 2, (stride,) * 2), threshold=tau)


def theory(options: Options, report: Report) -> Figure:
    """Figure 6.3, and how much of it is left in batches of patches of one size."""
    rows, sizes, drawn = [], [], {}
    for name in options.models:
        graph = unweighted(name)
        patches = [thresholded(name, graph, patch, options.stride) for patch in _PATCHES]
        for patch, update in zip(_PATCHES, patches, strict=True):
            report.ratio(f"theory.{name}.{patch}", update.speedup, "FLOPs in full / incrementally, all places")
        cells = [f"{one.speedup:.2f}, {one.centre_speedup:.2f}, {one.overall_speedup:.2f}" for one in patches]
        rows.append((name, *cells, _SEEDS.get(name, "2 to 3 (most CNNs)")))
        drawn[name] = [update.centre_speedup for update in patches]
        update = thresholded(name, graph, options.patch, options.stride)
        sizes.append((name, *(f"{_bucketed(update, count):.2f}" for count in _BUCKETS), ""))
    title = (
        "Figure 6.3: FLOPs in full / incrementally: over all places, in the middle, over all with the layers in full"
    )
    report.table(title, ("network", *(f"patch {patch}" for patch in _PATCHES), "the seeds: in the middle"), rows)
    columns = ("network", *(f"{count} an axis" for count in _BUCKETS), "")
    report.table(f"Patch {options.patch}, with the layers in full, by buckets of places of one size", columns, sizes)
    figure, (axes,) = panels("Figure 6.3: theoretical speed-up, patch in the middle")
    lines(axes, _PATCHES, drawn, "patch, pixels", "FLOPs in full / incrementally", logarithmic=True)
    return figure


def _bucketed(patches: UpdatePatches, count: int) -> float:
    """Speed-up where the places along each axis have that many sizes (appendix B.3 has one)."""
    graph, flops = patches.graph, 0.0
    rows, columns = (buckets(patches, axis, count) for axis in (0, 1))
    for first in rows:
        for second in columns:
            share = len(first.places) * len(second.places) / patches.grid.count
            for name in patches.spans:
                area = first.lengths[name] * second.lengths[name] / (patches.extent(name, 0) * patches.extent(name, 1))
                flops += share * area * graph[name].flops
    return (patches.full_flops + patches.whole_flops) / (flops + patches.whole_flops)
