"""Layouts of layers of a captured Keras network: meanings of axes, followed from the image through the steps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from udfs.handlers._axes import (
    BATCH,
    CHANNEL,
    COLUMN,
    PLACE,
    ROW,
    Axis,
    broadcast,
    concatenated,
    layout_of,
    regrouped,
    resized,
    sliced,
)
from udfs.handlers.keras._capture import Ref
from udfs.handlers.keras._names import operation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from udfs.handlers._axes import Axes
    from udfs.handlers._layer_layout import LayerLayout
    from udfs.handlers.keras._capture import Capture, Step
    from udfs.handlers.keras._measure import Measure

__all__ = ["layouts"]

_RESHAPES = frozenset({"Reshape", "Flatten", "reshape", "ravel", "expand_dims", "squeeze"})
_LINEAR = frozenset({"Dense", "EinsumDense", "Embedding"})
_ATTENTION = frozenset({"MultiHeadAttention", "GroupQueryAttention", "GroupedQueryAttention", "Attention"})
_REDUCTIONS = frozenset({"mean", "sum", "max", "min", "amax", "amin", "var", "std", "logsumexp", "prod"})
_MAP_RANK = 4


def layouts(captured: Capture, measured: Measure) -> list[LayerLayout | None]:
    """Return the layout of each value of a network that reads an image, ``None`` where it is ambiguous."""
    meanings: dict[int, Axes | None] = {}
    for index in captured.inputs:
        meanings[index] = _image(_extents(measured, index))
    for step in captured.steps:
        for index in step.writes:
            shape = _extents(measured, index)
            try:
                axes = _followed(step, meanings, measured, shape) if shape else None
            except (IndexError, TypeError, ValueError):
                axes = None
            fits = axes is not None and tuple(axis.extent for axis in axes) == shape
            meanings[index] = axes if fits else _by_rank(shape)
    in_order = [meanings.get(index) for index in range(len(captured.symbols))]
    return [None if axes is None else _settled(axes) for axes in in_order]


def _extents(measured: Measure, index: int) -> tuple[int, ...]:
    """Return the shape of a value, empty where an extent is not known."""
    shape = measured.shapes.get(index, ())
    return tuple(extent or 0 for extent in shape) if None not in shape else ()


def _settled(axes: Axes) -> LayerLayout | None:
    layout = layout_of(axes)
    # One map gives one vector in every framework, also unpooled.
    return layout if layout is None or len(axes) != _MAP_RANK else replace(layout, keeps_order=False)


def _image(shape: tuple[int, ...]) -> Axes | None:
    if len(shape) != _MAP_RANK:
        return _by_rank(shape)
    meanings = (BATCH, ROW, COLUMN, CHANNEL)
    return tuple(Axis.single(meaning, extent) for meaning, extent in zip(meanings, shape, strict=True))


def _by_rank(shape: tuple[int, ...]) -> Axes | None:
    """Return the axes of what is not followed: a map by Keras's convention, a vector, and nothing for tokens."""
    if len(shape) == _MAP_RANK:
        return _image(shape)
    if len(shape) == 2:  # records and channels
        return Axis.single(BATCH, shape[0]), Axis.single(CHANNEL, shape[1])
    return None


def _followed(step: Step, meanings: dict[int, Axes | None], measured: Measure, shape: tuple[int, ...]) -> Axes | None:
    name = operation(step)
    read = [meanings.get(index) for index in step.reads]
    known = [axes for axes in read if axes is not None]
    if not known:
        return None
    data_format = getattr(step.operation, "data_format", None)
    if data_format is not None and hasattr(step.operation, "kernel_size"):
        return _convolved(known[0], shape, last=data_format == "channels_last")
    if name in ("Concatenate", "concatenate"):
        place = int(step.operation.axis) % len(shape)
        extents = [measured.shapes[index][place] or 0 for index in step.reads]
        return concatenated(list(zip(read, extents, strict=True)), place)
    rule = next((rule for names, rule in _RULES if name in names), None)
    if rule is not None or name.startswith("Global"):
        return (rule or _reduced)(known[0], step, shape)
    if len(known) == 1 and len(known[0]) == len(shape):
        return resized(known[0], shape, tokens=hasattr(step.operation, "pool_size"))
    return broadcast(known, shape)


def _linear(first: Axes, _step: Step, shape: tuple[int, ...]) -> Axes | None:
    return (*first[:-1], Axis.single(CHANNEL, shape[-1])) if len(first) == len(shape) else None


def _regrouped(first: Axes, _step: Step, shape: tuple[int, ...]) -> Axes | None:
    return regrouped(first, shape)


def _permuted(first: Axes, step: Step, _shape: tuple[int, ...]) -> Axes:
    dims = getattr(step.operation, "dims", None)
    order = (0, *dims) if dims is not None else getattr(step.operation, "axes", None)
    return tuple(first[axis] for axis in order or reversed(range(len(first))))


def _convolved(first: Axes, shape: tuple[int, ...], *, last: bool) -> Axes:
    channel = len(shape) - 1 if last else 1
    places = [axis for axis in range(1, len(shape)) if axis != channel]
    meanings = (ROW, COLUMN) if len(places) == 2 else (PLACE,) * len(places)  # rows and columns
    axes = [Axis.single(BATCH, shape[0])] * len(shape)
    axes[channel] = Axis.single(CHANNEL, shape[channel])
    for place, meaning in zip(places, meanings, strict=True):
        kept = first[place].with_extent(shape[place]) if len(first) == len(shape) else None
        axes[place] = kept if kept is not None and kept.is_places else Axis.single(meaning, shape[place])
    return tuple(axes)


def _item(first: Axes, step: Step, _shape: tuple[int, ...]) -> Axes | None:
    arguments = [value for value in (*step.args, *step.kwargs.values()) if not isinstance(value, Ref)]
    keys: Any = arguments[0]
    keys = keys if isinstance(keys, tuple) else (keys,)
    result: list[Axis | None] = []
    for axis, key in zip(first, (*keys, *(slice(None),) * (len(first) - len(keys))), strict=True):
        if isinstance(key, slice):
            start, stop, stride = key.indices(axis.extent)
            result.append(sliced(axis, start, len(range(start, stop, stride)), stride))
        elif not isinstance(key, int):
            return None
    return None if None in result else tuple(axis for axis in result if axis is not None)


def _reduced(first: Axes, step: Step, shape: tuple[int, ...]) -> Axes | None:
    if len(first) == len(shape):
        return resized(first, shape)
    axis = getattr(step.operation, "axis", None)
    if axis is None:
        kept = [axis for axis in first if not axis.is_places]
        return tuple(kept)
    removed = {number % len(first) for number in (axis if isinstance(axis, (list, tuple)) else [axis])}
    return tuple(axis for place, axis in enumerate(first) if place not in removed)


_RULES: tuple[tuple[Collection[str], Callable[[Axes, Step, tuple[int, ...]], Axes | None]], ...] = (
    (_LINEAR | _ATTENTION, _linear),
    (_RESHAPES, _regrouped),
    (("Permute", "transpose"), _permuted),
    (("get_item",), _item),
    (_REDUCTIONS, _reduced),
)
