"""A patch's way through a network: the part of every tensor that it changes, until a layer looks at all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING

from ._errors import PatchError
from ._local import is_local
from ._span import Span

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from optimizer.graph import Layer, LayerGraph

    from ._grid import OcclusionGrid

__all__ = ["UpdatePatches", "update_patches"]


@dataclass(frozen=True)
class UpdatePatches:
    """Made by :func:`update_patches`.

    Attributes
    ----------
    graph : LayerGraph
    source : str
        The input that the patch is laid on.
    grid : OcclusionGrid
    threshold : float
    spans : mapping of str to tuple of Span
        By layer of the incremental part, an entry an axis: rows of the heat map on the first, columns on the second.
        The two are independent: what changes along one axis depends on the patch's place along it alone.
    whole : tuple of str
        Layers above, which are computed in full for every position.
    """

    graph: LayerGraph
    source: str
    grid: OcclusionGrid
    threshold: float
    spans: Mapping[str, tuple[Span, ...]]
    whole: tuple[str, ...]

    @property
    def frontier(self) -> tuple[str, ...]:
        """Incremental layers whose whole tensor is wanted above, or by the user."""
        wanted = {name for layer in self.whole for name in self.graph[layer].inputs} | set(self.graph.outputs)
        return tuple(name for name in self.spans if name in wanted)

    @property
    def beside(self) -> tuple[str, ...]:
        """What layers read that no patch reaches: tensors of other inputs, the same for every position."""
        read = (name for layer in (*self.spans, *self.whole) for name in self.graph[layer].inputs)
        return tuple(name for name in dict.fromkeys(read) if name not in self.spans and name not in self.whole)

    @property
    def full_flops(self) -> int:
        """Of the incremental layers, for one position computed in full (equation 6.10)."""
        return self.graph.flops(self.spans)

    @property
    def whole_flops(self) -> int:
        """Of the layers above them, which are computed in full for every position in any case."""
        return self.graph.flops(self.whole)

    def flops(self, *index: int) -> float:
        """Of the incremental layers for one position, an index of the heat map (equations 6.11 and 6.12).

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
            for name, spans in self._all
        )
        return self._sum(shares)

    @property
    def mean_flops(self) -> float:
        """Over all positions."""
        return self._sum((name, [float(span.lengths.mean()) for span in spans]) for name, spans in self._all)

    @property
    def uniform_flops(self) -> float:
        """With all positions' patches as large as the largest, as the paper batches them (appendix B.3)."""
        return self._sum((name, [float(span.lengths.max()) for span in spans]) for name, spans in self._all)

    @property
    def centre_speed_up(self) -> float:
        """Theoretical speed-up of the patch in the middle, the paper's worst case (section 6.3.1)."""
        return self.full_flops / self.flops(*(extent // 2 for extent in self.grid.shape))

    @property
    def speed_up(self) -> float:
        """Theoretical speed-up over all positions; of the incremental layers, as the paper counts."""
        return self.full_flops / self.mean_flops

    @property
    def uniform_speed_up(self) -> float:
        """Theoretical speed-up with patches of one size."""
        return self.full_flops / self.uniform_flops

    @property
    def overall_speed_up(self) -> float:
        """Over all positions, with the layers that are computed in full."""
        return (self.full_flops + self.whole_flops) / (self.mean_flops + self.whole_flops)

    def extent(self, name: str, axis: int) -> int:
        """Of a layer's tensor, along a spatial axis."""
        return _extents(self.graph[name], len(self.grid.image), self._last)[axis]

    def explain(self) -> str:
        """What is incremental, what is not, and what that saves."""
        rows, extents = " x ".join(map(str, self.grid.shape)), " x ".join(map(str, self.grid.patch))
        theory = (
            f"{self.speed_up:.2f} over all positions, {self.centre_speed_up:.2f} in the middle, "
            f"{self.uniform_speed_up:.2f} with patches of one size; {self.overall_speed_up:.2f} with the layers in full"
        )
        lines = [
            f"a patch of {extents} at {rows} positions, tau {self.threshold:g}:",
            f"  {len(self.spans)} layers incremental up to {', '.join(self.frontier)}, {len(self.whole)} in full",
            f"  {self.full_flops / 1e9:.3f} GFLOPs, {self.mean_flops / 1e9:.3f} incrementally",
            f"  theoretical speed-up {theory}",
        ]
        return "\n".join(lines)

    @property
    def _all(self) -> list[tuple[str, tuple[Span, ...]]]:
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


def update_patches(
    graph: LayerGraph,
    grid: OcclusionGrid,
    *,
    threshold: float = 1.0,
    known: Container[str] | None = None,
    source: str | None = None,
) -> UpdatePatches:
    """Follow a patch through a network, for all positions of it at once.

    A layer is incremental while each of its inputs is, and while it is known to look at a neighbourhood (a window) or
    at one element; where branches meet, the hull of their changes counts (equation 6.20). The first that looks at all
    of its input, and any that is not known, is computed in full, and so is everything above it.

    Parameters
    ----------
    graph : LayerGraph
        Channels first or last.
    grid : OcclusionGrid
    threshold : float
        Tau of projective field thresholding: at most this fraction of each axis is kept up to date, in the middle of
        what has changed. 1 (default) is exact.
    known : container of str, optional
        Layers that whoever runs the network can compute incrementally; all by default.
    source : str, optional
        The input that the patch is laid on, of a network of several: what they alone make stays as it is.

    Returns
    -------
    UpdatePatches

    Raises
    ------
    PatchError
        No or several inputs without one that is chosen; an image of another size; a threshold that is no fraction.
    """
    if not 0 < threshold <= 1:
        raise PatchError(f"tau={threshold!r}: above 0, at most 1")
    source = _source(graph, source)
    last = _channels_last(graph[source], grid)
    starts = [grid.starts(axis) for axis in range(len(grid.image))]
    spans = {source: tuple(Span(start, start + extent) for start, extent in zip(starts, grid.patch, strict=True))}
    whole: list[str] = []
    for name in graph.descendants([source])[1:]:
        layer = graph[name]
        read = [graph[above] for above in dict.fromkeys(layer.inputs)]
        changed = [above for above in read if above.name in spans]
        stale = any(above.name in whole for above in read)
        if (
            stale
            or (known is not None and name not in known)
            or not is_local(layer, changed, len(grid.image), channels_last=last)
        ):
            whole.append(name)
        else:
            spans[name] = _after(layer, [spans[above.name] for above in changed], threshold, last=last)
    return UpdatePatches(graph, source, grid, threshold, MappingProxyType(spans), tuple(whole))


def _after(layer: Layer, changed: list[tuple[Span, ...]], threshold: float, *, last: bool) -> tuple[Span, ...]:
    axes = [reduce(Span.hull, spans) for spans in zip(*changed, strict=True)]
    extents = _extents(layer, len(axes), last)
    if layer.window is not None:
        window = zip(layer.window.kernel, layer.window.stride, layer.window.padding, layer.window.dilation, strict=True)
        axes = [span.through(*one, extent) for span, one, extent in zip(axes, window, extents, strict=True)]
    return tuple(span.cropped(threshold, extent) for span, extent in zip(axes, extents, strict=True))


def _extents(layer: Layer, axes: int, last: bool) -> tuple[int, ...]:
    shape = layer.output_shape
    return shape[:axes] if last else shape[-axes:]


def _source(graph: LayerGraph, wanted: str | None) -> str:
    if wanted is None and len(graph.inputs) == 1:
        return graph.inputs[0]
    if wanted is None or wanted not in graph.inputs:
        which = "which" if wanted is None else f"{wanted!r} is none"
        raise PatchError(f"a patch is laid on one input, {which} of: {', '.join(graph.inputs)}")
    return wanted


def _channels_last(source: Layer, grid: OcclusionGrid) -> bool:
    shape, axes = source.output_shape, len(grid.image)
    if len(shape) == axes + 1 and shape[1:] == grid.image:
        return False
    if len(shape) == axes + 1 and shape[:-1] == grid.image:
        return True
    raise PatchError(f"the grid is for images of {grid.image}, and {source.name!r} has the shape {shape}")
