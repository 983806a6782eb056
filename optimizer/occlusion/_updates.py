"""Propagation of a patch through a network: the part of each tensor that it changes, up to the first global layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING

from optimizer.occlusion._errors import PatchError
from optimizer.occlusion._locality import is_local
from optimizer.occlusion._span import Span

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from optimizer.graph import Layer, LayerGraph
    from optimizer.occlusion._grid import OcclusionGrid

__all__ = ["UpdatePatches", "update_patches"]


@dataclass(frozen=True)
class UpdatePatches:
    """Changed part of each tensor, by position of the patch; made by :func:`update_patches`.

    ``spans`` has the changes of each incremental layer, one entry per axis: by row of the heat map on the first, by
    column on the second. The axes are independent: the change along one depends only on the patch's position along it.
    ``whole`` are the layers above them, computed in full for every position; ``means`` are means over all places of an
    incremental layer, computed from that of the image and the patch's difference.
    """

    graph: LayerGraph
    source: str
    grid: OcclusionGrid
    threshold: float
    spans: Mapping[str, tuple[Span, ...]]
    whole: tuple[str, ...]
    means: tuple[str, ...] = ()

    @property
    def ended_by(self) -> tuple[tuple[str, str], ...]:
        """Layers, each with its operator, that read a patch and whose output changes everywhere.

        All above them is computed in full. A merge with a tensor that has changed everywhere already is not listed. Of
        squeeze-and-excitation, the product with the gate is listed, and not the mean that the gate is made of.
        """
        reading = [
            self.graph[name]
            for name in (*self.whole, *self.means)
            if any(below in self.spans for below in self.graph[name].inputs)
            and not any(below in self.whole and self._like_image(below) for below in self.graph[name].inputs)
        ]
        ends = {layer.name for layer in reading}
        return tuple(
            (layer.name, layer.op)
            for layer in reading
            if self._like_image(layer.name) or not ends & {*self.graph.descendants([layer.name])[1:]}
        )

    def _like_image(self, name: str) -> bool:
        shape, axes = self.graph[name].output_shape, len(self.grid.image)
        return len(shape) == axes + 1 and max(shape[:-1] if self._last else shape[1:]) > 1

    @property
    def frontier(self) -> tuple[str, ...]:
        """Incremental layers whose full tensor a layer above reads, or the user wants."""
        full_inputs = {name for layer in self.whole for name in self.graph[layer].inputs} | set(self.graph.outputs)
        return tuple(name for name in self.spans if name in full_inputs)

    @property
    def beside(self) -> tuple[str, ...]:
        """Tensors that layers read and no patch reaches: made from other inputs, the same for every position."""
        read = (name for layer in (*self.spans, *self.whole, *self.means) for name in self.graph[layer].inputs)
        changed = {*self.spans, *self.whole, *self.means}
        return tuple(name for name in dict.fromkeys(read) if name not in changed)

    @property
    def full_flops(self) -> int:
        """FLOPs of the incremental layers for one position, computed in full (equation 6.10)."""
        return self.graph.flops(self.spans)

    @property
    def whole_flops(self) -> int:
        """FLOPs per position of the layers above them, which are always computed in full."""
        return self.graph.flops(self.whole)

    def flops(self, *index: int) -> float:
        """Count the FLOPs of the incremental layers for one position of the heat map (equations 6.11 and 6.12).

        Examples
        --------
        >>> from optimizer.graph import Layer, LayerGraph, Window
        >>> from optimizer.occlusion import OcclusionGrid
        >>> image = Layer("image", "input", (), (3, 8, 8))
        >>> three = Window((3, 3), (1, 1), (1, 1), (1, 1))
        >>> conv = Layer("conv", "Conv2d", ("image",), (4, 8, 8), flops=64, window=three)
        >>> patches = update_patches(LayerGraph([image, conv], ["conv"]), OcclusionGrid((8, 8), (2, 2), (2, 2)))
        >>> patches.flops(0, 0), patches.flops(1, 1)  # three by three changed at a corner, four by four inside
        (9.0, 16.0)
        """
        shares = (
            (name, [float(span.lengths[at]) for span, at in zip(spans, index, strict=True)])
            for name, spans in self._costly
        )
        return self._sum(shares)

    @property
    def mean_flops(self) -> float:
        """FLOPs of the incremental layers for a position, the mean over all positions."""
        return self._sum((name, [float(span.lengths.mean()) for span in spans]) for name, spans in self._costly)

    @property
    def uniform_flops(self) -> float:
        """FLOPs for a position if all patches are as large as the largest, as the paper batches them (appendix B.3)."""
        return self._sum((name, [float(span.lengths.max()) for span in spans]) for name, spans in self._costly)

    @property
    def centre_speedup(self) -> float:
        """Theoretical speed-up of the patch in the middle, the paper's worst case (section 6.3.1)."""
        return _ratio(self.full_flops, self.flops(*(extent // 2 for extent in self.grid.shape)))

    @property
    def speedup(self) -> float:
        """Theoretical speed-up of the incremental layers over all positions, as the paper counts it."""
        return _ratio(self.full_flops, self.mean_flops)

    @property
    def uniform_speedup(self) -> float:
        """Theoretical speed-up with patches of one size."""
        return _ratio(self.full_flops, self.uniform_flops)

    @property
    def overall_speedup(self) -> float:
        """Theoretical speed-up of all layers over all positions; those computed in full gain nothing."""
        return _ratio(self.full_flops + self.whole_flops, self.mean_flops + self.whole_flops)

    def extent(self, name: str, axis: int) -> int:
        """Return the extent of a layer's tensor along a spatial axis."""
        return _extents(self.graph[name], len(self.grid.image), self._last)[axis]

    def explain(self) -> str:
        """Describe the incremental layers, those computed in full, and the FLOPs saved."""
        rows, extents = " x ".join(map(str, self.grid.shape)), " x ".join(map(str, self.grid.patch))
        theory = (
            f"{self.speedup:.2f} over all positions, {self.centre_speedup:.2f} in the middle, "
            f"{self.uniform_speedup:.2f} with patches of one size; {self.overall_speedup:.2f} with the layers in full"
        )
        lines = [
            f"a patch of {extents} at {rows} positions, tau {self.threshold:g}:",
            f"  {len(self.spans)} layers incremental up to {', '.join(self.frontier)}, {len(self.whole)} in full",
            f"  ended by {', '.join(f'{name} ({op})' for name, op in self.ended_by) or 'no layer'}",
            f"  {self.full_flops / 1e9:.3f} GFLOPs, {self.mean_flops / 1e9:.3f} incrementally",
            f"  theoretical speed-up {theory}",
        ]
        return "\n".join(lines)

    @property
    def _costly(self) -> list[tuple[str, tuple[Span, ...]]]:
        return [(name, spans) for name, spans in self.spans.items() if self.graph[name].flops]

    def _sum(self, shares: Iterable[tuple[str, list[float]]]) -> float:
        total = 0.0
        for name, lengths in shares:
            layer = self.graph[name]
            total += layer.flops * math.prod(lengths) / math.prod(_extents(layer, len(lengths), self._last))
        return total

    @property
    def _last(self) -> bool:
        return _channels_last(self.graph[self.source], self.grid)


def _ratio(full: float, part: float) -> float:
    """Divide FLOPs; a network without FLOPs gains nothing."""
    if not full:
        return 1.0
    return full / part if part else math.inf


def update_patches(
    graph: LayerGraph,
    grid: OcclusionGrid,
    *,
    threshold: float = 1.0,
    known: Container[str] | None = None,
    means: Container[str] = (),
    source: str | None = None,
) -> UpdatePatches:
    """Follow a patch through a network, for all its positions at once.

    A layer is incremental if all its inputs are, and if it is known to read a neighbourhood (a window) or a single
    element. Where branches meet, the hull of their changes counts (equation 6.20). A layer that reads all of its input,
    or is not known, is computed in full, and so is every layer above it. ``threshold`` is tau of projective field
    thresholding: at most this fraction of each axis is updated, in the middle of the change; 1 is exact. ``known`` are
    layers that the runtime can compute incrementally, by default all; ``means`` are means over all places. ``source``
    is the input that the patch occludes, if the network has several. Raise PatchError if it is not an input or missing
    among several, if the image has another size than the grid's, or the threshold is not above 0 and at most 1.
    """
    if not 0 < threshold <= 1:
        raise PatchError(f"tau must be above 0 and at most 1, got {threshold!r}")
    source = _source(graph, source)
    last = _channels_last(graph[source], grid)
    starts = [grid.starts(axis) for axis in range(len(grid.image))]
    spans = {source: tuple(Span(start, start + extent) for start, extent in zip(starts, grid.patch, strict=True))}
    whole: list[str] = []
    changed_means: list[str] = []
    for name in graph.descendants([source])[1:]:
        layer = graph[name]
        read = [graph[below] for below in dict.fromkeys(layer.inputs)]
        changed = [below for below in read if below.name in spans]
        if name in means and all(below.name in spans for below in read):
            changed_means.append(name)
        elif (
            any(below.name in whole or below.name in changed_means for below in read)
            or (known is not None and name not in known)
            or not is_local(layer, changed, len(grid.image), channels_last=last)
        ):
            whole.append(name)
        else:
            spans[name] = _propagate(layer, [spans[below.name] for below in changed], threshold, last=last)
    return UpdatePatches(graph, source, grid, threshold, MappingProxyType(spans), tuple(whole), tuple(changed_means))


def _propagate(layer: Layer, changed: list[tuple[Span, ...]], threshold: float, *, last: bool) -> tuple[Span, ...]:
    axes = [reduce(Span.hull, spans) for spans in zip(*changed, strict=True)]
    extents = _extents(layer, len(axes), last)
    if layer.window is not None:
        window = zip(layer.window.kernel, layer.window.stride, layer.window.padding, layer.window.dilation, strict=True)
        axes = [span.through(*sizes, extent) for span, sizes, extent in zip(axes, window, extents, strict=True)]
    return tuple(span.cropped(threshold, extent) for span, extent in zip(axes, extents, strict=True))


def _extents(layer: Layer, axes: int, last: bool) -> tuple[int, ...]:
    shape = layer.output_shape
    return shape[:axes] if last else shape[-axes:]


def _source(graph: LayerGraph, name: str | None) -> str:
    if name is None and len(graph.inputs) == 1:
        return graph.inputs[0]
    if name is None or name not in graph.inputs:
        raise PatchError(f"source must be one of the network's inputs {', '.join(graph.inputs)}, got {name!r}")
    return name


def _channels_last(source: Layer, grid: OcclusionGrid) -> bool:
    shape, axes = source.output_shape, len(grid.image)
    if len(shape) == axes + 1 and shape[1:] == grid.image:
        return False
    if len(shape) == axes + 1 and shape[:-1] == grid.image:
        return True
    raise PatchError(f"input {source.name!r} must be images of {grid.image}, as the grid, got shape {shape}")
