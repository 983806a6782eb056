"""The part of an input that each element of a tensor depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.errors import GraphError

if TYPE_CHECKING:
    from optimizer.graph._graph import LayerGraph
    from optimizer.graph._layer import Layer, Window

__all__ = ["ReceptiveField", "receptive_field"]

_WITH_INNER_AXES = 3


@dataclass(frozen=True, slots=True)
class ReceptiveField:
    """The part of an upstream tensor that one element depends on. Made by :func:`receptive_field`.

    Attributes
    ----------
    size : tuple of int
        Extent of the field, one entry per spatial axis, in elements of the upstream tensor. With dilation or branches
        the field can have holes; this is its hull.
    stride : tuple of int
        How far the field moves when the index of the element grows by one (the "jump").
    start : tuple of int
        First upstream index that the element of index 0 sees; negative where it looks into the padding.
    """

    size: tuple[int, ...]
    stride: tuple[int, ...]
    start: tuple[int, ...]

    def at(self, *index: int) -> tuple[tuple[int, int], ...]:
        """Give the half-open range of upstream indices that the element at ``index`` sees, one per axis.

        It reaches into the padding: clip it to the tensor to read.

        Examples
        --------
        >>> ReceptiveField(size=(7,), stride=(2,), start=(-3,)).at(4)
        ((5, 12),)
        """
        return tuple(
            (start + i * stride, start + i * stride + size)
            for i, size, stride, start in zip(index, self.size, self.stride, self.start, strict=True)
        )

    def through(self, window: Window) -> ReceptiveField:
        """Compose: the field of a layer with ``window`` whose input has this one."""
        steps = tuple(zip(window.kernel, window.stride, window.padding, window.dilation, strict=True))
        return ReceptiveField(
            tuple(
                size + (kernel - 1) * dilation * jump
                for size, jump, (kernel, _, _, dilation) in zip(self.size, self.stride, steps, strict=True)
            ),
            tuple(jump * stride for jump, (_, stride, _, _) in zip(self.stride, steps, strict=True)),
            tuple(
                start - padding * jump
                for start, jump, (_, _, padding, _) in zip(self.start, self.stride, steps, strict=True)
            ),
        )


def receptive_field(graph: LayerGraph, name: str, of: str | None = None) -> ReceptiveField:
    """Receptive field of a layer's elements, composed over all paths from an upstream tensor.

    The read-in geometry of Krypton (equations 6.15 and 6.16, which have no dilation), composed over the DAG. Layers
    without a window count as pointwise along the spatial axes; layers whose shapes contradict that are refused.

    Parameters
    ----------
    graph : LayerGraph
        The network; its shapes may have the channels first or last.
    name : str
        The layer whose elements see.
    of : str, optional
        The tensor that they see; by default the one graph input that ``name`` depends on.

    Returns
    -------
    ReceptiveField
        Over the spatial axes, in the order of the windows. Without any window on the way: all axes but one, for the
        channels.

    Raises
    ------
    UnknownLayerError
        A name that the graph does not have.
    GraphError
        ``name`` does not depend on ``of``, or on several inputs and ``of`` is not given; a layer on the way destroys
        the geometry (flattens, pools globally, resizes); branches of different stride meet.

    Examples
    --------
    Two 3 x 3 convolutions see 5 x 5.

    >>> from optimizer.graph import Layer, LayerGraph, Window
    >>> window = Window((3, 3), (1, 1), (1, 1), (1, 1))
    >>> x = Layer("x", "input", (), (3, 32, 32))
    >>> a = Layer("a", "conv2d", ("x",), (8, 32, 32), window=window)
    >>> b = Layer("b", "conv2d", ("a",), (8, 32, 32), window=window)
    >>> receptive_field(LayerGraph([x, a, b], ["b"]), "b")
    ReceptiveField(size=(5, 5), stride=(1, 1), start=(-2, -2))
    """
    of = _source(graph, name) if of is None else graph[of].name
    upstream = set(graph.ancestors(name))
    between = [layer for layer in map(graph.__getitem__, graph.descendants(of)) if layer.name in upstream]
    if graph[of] not in between:
        raise GraphError(f"{name!r} does not depend on {of!r}, so it has no receptive field there")
    axes = _axes(between[1:], graph[of])
    fields = {of: ReceptiveField((1,) * axes, (1,) * axes, (0,) * axes)}
    for layer in between[1:]:
        sources = [graph[source] for source in dict.fromkeys(layer.inputs) if source in fields]
        for source in sources:
            _check_geometry(source, layer)
        seen = _union(layer, [fields[source.name] for source in sources])
        fields[layer.name] = seen if layer.window is None else seen.through(layer.window)
    return fields[name]


def _source(graph: LayerGraph, name: str) -> str:
    upstream = set(graph.ancestors(name))
    inputs = [source for source in graph.inputs if source in upstream]
    if len(inputs) != 1:
        raise GraphError(f"{name!r} depends on {len(inputs)} graph inputs {', '.join(inputs)}: name one of them")
    return inputs[0]


def _axes(layers: list[Layer], source: Layer) -> int:
    """Count the spatial axes, which all windows on the way must agree on."""
    windowed = {layer.window.axes: layer.name for layer in layers if layer.window is not None}
    if len(windowed) > 1:
        numbers = ", ".join(f"{axes} ({name!r})" for axes, name in windowed.items())
        raise GraphError(f"windows of different numbers of spatial axes on the way: {numbers}")
    return next(iter(windowed), max(len(source.output_shape) - 1, 0))


def _check_geometry(source: Layer, layer: Layer) -> None:
    before, after = source.output_shape, layer.output_shape
    reason = ""
    if len(before) != len(after):
        reason = "its rank changes"
    elif layer.window is None:
        changed = [axis for axis, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
        # The channels are the first axis or the last, and only they may change where no element sees its neighbours.
        inner = len(after) >= _WITH_INNER_AXES and any(0 < axis < len(after) - 1 for axis in changed)
        if inner or len(changed) > 1:
            reason = "a spatial axis changes without a window"
    if reason:
        raise GraphError(f"layer {layer.name!r} ({layer.op}) destroys the geometry: {before} to {after}, {reason}")


def _union(layer: Layer, fields: list[ReceptiveField]) -> ReceptiveField:
    strides = {field.stride for field in fields}
    if len(strides) > 1:
        raise GraphError(f"branches of strides {sorted(strides)} meet at {layer.name!r}: no field moves with both")
    starts = [min(axis) for axis in zip(*(field.start for field in fields), strict=True)]
    stops = [max(axis) for axis in zip(*(tuple(stop for _, stop in _first(field)) for field in fields), strict=True)]
    sizes = (stop - start for start, stop in zip(starts, stops, strict=True))
    return ReceptiveField(tuple(sizes), fields[0].stride, tuple(starts))


def _first(field: ReceptiveField) -> tuple[tuple[int, int], ...]:
    return field.at(*(0 for _ in field.size))
