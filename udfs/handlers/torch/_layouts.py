"""Layouts of layers of a captured torch network: meanings of axes, followed from the image through the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from udfs.handlers._axes import (
    BATCH,
    CHANNEL,
    COLUMN,
    ROW,
    Axis,
    layout_of,
)
from udfs.handlers._protocol import UntraceableModelError
from udfs.handlers.torch._axis_rules import SLIDING, UNKNOWN, Follower, Meaning
from udfs.handlers.torch._measure import BATCHES, Measure, measure
from udfs.tensors import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from udfs.handlers._axes import Axes
    from udfs.handlers._layer_layout import LayerLayout

__all__ = ["layouts"]

_IMAGE_RANK = 3
_LARGER = 2  # sides of the second image, in those of the first


def layouts(module: fx.GraphModule, inputs: Sequence[TensorSpec]) -> Callable[[str], LayerLayout | None]:
    """Return a function from a node's name to its layout, ``None`` where it is ambiguous.

    A layout is found by following the axes of the image through the graph, and by the extents that change where the
    image is twice as large, if the network runs on one. Where the two disagree the layout is ambiguous.
    """
    small = measure(module, inputs, BATCHES[0])
    meanings = _followed(module, small)
    larger: list[Measure | None] = []

    def changed(name: str) -> tuple[int, ...] | None:
        if not larger:
            larger.append(_on_larger_images(module, inputs))
        other = None if larger[0] is None else larger[0].values.get(name)
        value = small.values[name]
        if not isinstance(other, torch.Tensor) or other.dim() != value.dim():
            return None
        return tuple(axis for axis in range(value.dim() - 1) if value.shape[axis + 1] != other.shape[axis + 1])

    def layout(name: str) -> LayerLayout | None:
        axes, value = meanings[name], small.values[name]
        if not isinstance(value, torch.Tensor):
            return None
        followed = layout_of(axes) if isinstance(axes, tuple) and axes and isinstance(axes[0], Axis) else None
        if value.dim() <= _IMAGE_RANK - 1 or (followed is not None and _is_plain(followed, value)):
            return followed or (layout_of(_vector(value)) if value.dim() <= _IMAGE_RANK - 1 else None)
        moving = changed(name)
        if followed is None:
            return None if not moving else _by_sizes(moving, value)
        return None if moving and not set(moving) <= set(followed.places) else followed

    return layout


def _vector(value: torch.Tensor) -> Axes:
    return (Axis.single(BATCH, value.shape[0]), *(Axis.single(CHANNEL, extent) for extent in value.shape[1:]))


def _is_plain(layout: LayerLayout, value: torch.Tensor) -> bool:
    """Return whether a layout is a map as convolutions make it, which needs no second opinion."""
    return layout.places == (1, 2) and value.dim() == _IMAGE_RANK + 1


def _by_sizes(moving: tuple[int, ...], value: torch.Tensor) -> LayerLayout | None:
    """Return the layout by the axes whose extents follow the image's, where one axis remains for channels."""
    rank = value.dim() - 1
    if rank - len(moving) != 1:
        return None
    meanings = SLIDING.get(len(moving), ())
    kinds = dict(zip(moving, meanings, strict=True))
    rest = [Axis.single(kinds.get(axis, CHANNEL), extent) for axis, extent in enumerate(value.shape[1:])]
    return layout_of((Axis.single(BATCH, value.shape[0]), *rest))


def _on_larger_images(module: fx.GraphModule, inputs: Sequence[TensorSpec]) -> Measure | None:
    if any(len(spec.shape) != _IMAGE_RANK for spec in inputs):
        return None
    larger = [TensorSpec((spec.shape[0], *(_LARGER * side for side in spec.shape[1:])), spec.dtype) for spec in inputs]
    try:
        return measure(module, larger, BATCHES[0])
    except UntraceableModelError:
        return None


def _followed(module: fx.GraphModule, measured: Measure) -> dict[str, Meaning]:
    """Find the meaning of the axes of each node's value."""
    meanings: dict[str, Meaning] = {}
    for node in module.graph.nodes:
        if node.op == "output":
            continue
        value = measured.values[node.name]
        if node.op == "placeholder":
            meanings[node.name] = _image(value)
            continue
        read = {below: meanings[below.name] for below in node.all_input_nodes}
        if not isinstance(value, (torch.Tensor, tuple, list)) or not any(read.values()):
            meanings[node.name] = None
            continue
        try:
            meaning = Follower(module, node, measured, read).follow()
        except Exception:  # noqa: BLE001 - an operation with unusual arguments may fail on the probe in any way
            meaning = UNKNOWN
        meanings[node.name] = _checked(meaning, value)
    return meanings


def _checked(meaning: Meaning, value: Any) -> Meaning:
    """Return a meaning if its extents are those of the value."""
    if isinstance(value, torch.Tensor):
        fits = isinstance(meaning, tuple) and all(isinstance(axis, Axis) for axis in meaning)
        return meaning if fits and tuple(axis.extent for axis in meaning) == tuple(value.shape) else UNKNOWN
    if not isinstance(meaning, list) or len(meaning) != len(value):
        return [UNKNOWN] * len(value)
    return [_checked(*pair) if isinstance(pair[1], torch.Tensor) else None for pair in zip(meaning, value, strict=True)]


def _image(value: torch.Tensor) -> Meaning:
    if value.dim() != _IMAGE_RANK + 1:
        return UNKNOWN
    records, channels, rows, columns = value.shape
    return (
        Axis.single(BATCH, records),
        Axis.single(CHANNEL, channels),
        Axis.single(ROW, rows),
        Axis.single(COLUMN, columns),
    )
