"""Meaning of the axes of a tensor inside a network: records, rows, columns, channels; and how operations move them.

An axis is a product of factors, outermost first: the axis of the tokens of an 8 x 8 grid is ``row(8) column(8)``, and
a flattened map is ``channel(24) row(16) column(16)``. A reshape regroups factors, a permutation reorders axes. An axis
may also have entries before and after its factors, as the class token before the tokens of patches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from udfs.handlers._layer_layout import LayerLayout

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "BATCH",
    "CHANNEL",
    "COLUMN",
    "OTHER",
    "PLACE",
    "ROW",
    "Axis",
    "broadcast",
    "concatenated",
    "layout_of",
    "regrouped",
    "resized",
    "sliced",
]

BATCH, ROW, COLUMN, CHANNEL = "batch", "row", "column", "channel"

PLACE = "place"
"""Place of the image outside of a grid of rows and columns."""

OTHER = "other"
"""Entries that no place of the image has: class tokens, queries."""

_PLACES = frozenset({ROW, COLUMN, PLACE, OTHER})
_MAP = 2


@dataclass(frozen=True, slots=True)
class Axis:
    """Axis of a tensor: factors, each with its meaning and its extent, and entries before and after their product."""

    factors: tuple[tuple[str, int], ...] = ()
    leading: int = 0
    trailing: int = 0

    @classmethod
    def single(cls, meaning: str, extent: int) -> Axis:
        """Make an axis of one meaning; an axis of one entry has none."""
        return cls(((meaning, extent),) if extent > 1 else ())

    @property
    def extent(self) -> int:
        """Entries of the axis."""
        return self.leading + math.prod(extent for _, extent in self.factors) + self.trailing

    @property
    def meanings(self) -> frozenset[str]:
        """Meanings of the factors."""
        return frozenset(meaning for meaning, _ in self.factors)

    @property
    def is_places(self) -> bool:
        """True if the axis has places of the image, and no channels."""
        return bool(self.factors) and self.meanings <= _PLACES

    @property
    def has_others(self) -> bool:
        """True if there are entries beside the factors."""
        return bool(self.leading or self.trailing)

    def with_extent(self, extent: int) -> Axis | None:
        """Return the axis with another extent, as after a convolution; ``None`` if its meaning is lost."""
        if extent == self.extent:
            return self
        if extent == 1:
            return Axis()
        if not self.factors and not self.has_others:
            return None
        if self.has_others:
            return Axis.single(PLACE, extent) if self.is_places else None
        if len(self.meanings) == 1:
            return Axis.single(self.factors[0][0], extent)
        return (
            Axis.single(PLACE, extent)
            if self.is_places
            else Axis.single(CHANNEL, extent)
            if CHANNEL in self.meanings
            else None
        )


Axes = tuple[Axis, ...]


def regrouped(axes: Axes, shape: Sequence[int]) -> Axes | None:
    """Return the axes after a reshape; ``None`` if an axis of the result would mix parts of factors."""
    blocks: list[Axis] = []
    for axis in axes:
        blocks += [axis] if axis.has_others else [Axis((factor,)) for factor in axis.factors]
    result: list[Axis] = []
    for extent in shape:
        current, left = Axis(), extent
        while left > 1:
            if not blocks:
                return None
            block = blocks.pop(0)
            if block.has_others:
                if left != block.extent or current.factors:
                    return None
                current, left = block, 1
                continue
            ((meaning, size),) = block.factors
            if size > left:
                if size % left:
                    return None
                blocks.insert(0, Axis(((meaning, size // left),)))
                size = left
            elif left % size:
                return None
            current, left = Axis((*current.factors, (meaning, size))), left // size
        result.append(current)
    return None if blocks else tuple(map(_merged, result))


def _merged(axis: Axis) -> Axis:
    """Join neighbouring factors of one meaning."""
    joined: list[tuple[str, int]] = []
    for meaning, extent in axis.factors:
        if joined and joined[-1][0] == meaning:
            joined[-1] = (meaning, joined[-1][1] * extent)
        else:
            joined.append((meaning, extent))
    return replace(axis, factors=tuple(joined))


def resized(axes: Axes, shape: Sequence[int], *, tokens: bool = True) -> Axes | None:
    """Return the axes after an operation that changes extents and keeps meanings; ``None`` if one is lost.

    Without ``tokens`` only rows, columns and channels change their number: an operation that is not known may add a
    class token to tokens.
    """
    if len(axes) != len(shape):
        return None
    changed = [axis for axis, extent in zip(axes, shape, strict=True) if extent not in (1, axis.extent)]
    if not tokens and any(len(axis.factors) != 1 or axis.meanings & {PLACE, OTHER} for axis in changed):
        return None
    result = [axis.with_extent(extent) for axis, extent in zip(axes, shape, strict=True)]
    return None if None in result else tuple(axis for axis in result if axis is not None)


def sliced(axis: Axis, start: int, extent: int, step: int = 1) -> Axis | None:
    """Return an axis of which every `step`-th entry from `start` is kept."""
    if extent == axis.extent:
        return axis
    if not axis.has_others:
        return axis.with_extent(extent)
    stop = start + extent
    inner = axis.extent - axis.leading - axis.trailing
    if step != 1:
        return axis.with_extent(extent)
    if stop <= axis.leading or start >= axis.leading + inner:
        return Axis.single(OTHER, extent)
    if start <= axis.leading and stop >= axis.leading + inner:
        return replace(axis, leading=axis.leading - start, trailing=stop - axis.leading - inner)
    return axis.with_extent(extent)


def broadcast(shapes: Sequence[Axes], shape: Sequence[int]) -> Axes | None:
    """Return the axes of an operation on each entry: places win over channels, as where a residual is added.

    ``None`` if an axis of the result has its extent from no operand.
    """
    result: list[Axis] = []
    for place in range(1, len(shape) + 1):
        extent = shape[-place]
        candidates = [axes[-place] for axes in shapes if len(axes) >= place and axes[-place].extent == extent]
        candidates = [axis for axis in candidates if axis.factors or axis.has_others]
        if not candidates:
            if extent != 1:
                return None
            result.append(Axis())
            continue
        result.append(max(candidates, key=lambda axis: (axis.has_others, axis.is_places, len(axis.factors))))
    return tuple(reversed(result))


def concatenated(parts: Sequence[tuple[Axes | None, int]], place: int) -> Axes | None:
    """Return the axes of a concatenation along an axis.

    Parameters
    ----------
    parts : sequence of pair
        Axes of each operand, ``None`` if no record decides its values; and its extent along the axis.
    place : int
        The axis.
    """
    total = sum(extent for _, extent in parts)
    known = [(number, axes) for number, (axes, _) in enumerate(parts) if axes is not None]
    if not known:
        return None
    carriers = [
        (number, axes)
        for number, axes in known
        if axes[place].is_places and axes[place].meanings != {OTHER} and axes[place].extent > 1
    ]
    others = [number for number in range(len(parts)) if number not in {carrier for carrier, _ in carriers}]
    base = (carriers or known)[0][1]
    if len(carriers) == 1 and all(_is_other(parts[number][0], place) for number in others):
        number, axes = carriers[0]
        axis = axes[place]
        before = sum(extent for _, extent in parts[:number])
        after = sum(extent for _, extent in parts[number + 1 :])
        joined: Axis | None = replace(axis, leading=axis.leading + before, trailing=axis.trailing + after)
    elif carriers:
        meanings = {meaning for _, axes in carriers for meaning in axes[place].meanings}
        same = len(carriers) == len(parts) and len(meanings) == 1 and not any(a[place].has_others for _, a in carriers)
        joined = Axis.single(meanings.pop() if same else PLACE, total)
    elif any(CHANNEL in axes[place].meanings for _, axes in known):
        joined = Axis.single(CHANNEL, total)
    else:
        joined = Axis.single(OTHER, total)
    return None if joined is None else (*base[:place], joined, *base[place + 1 :])


def _is_other(axes: Axes | None, place: int) -> bool:
    return axes is None or not axes[place].factors or axes[place].meanings == {OTHER}


def layout_of(axes: Axes) -> LayerLayout | None:
    """Return the layout of a layer's tensor, whose first axis has the records; ``None`` if it is ambiguous."""
    records, *rest = axes
    if records.meanings - {BATCH} or records.has_others or any(BATCH in axis.meanings for axis in rest):
        return None
    if len(rest) < _MAP:
        return LayerLayout()
    places = [place for place, axis in enumerate(rest) if axis.is_places]
    if any(CHANNEL in axis.meanings for axis in rest):
        # What pooling or a stride left of places has one entry, and no meaning of its own.
        places += [place for place, axis in enumerate(rest) if not axis.factors and not axis.has_others]
    if not places and sum(bool(axis.factors) for axis in rest) > 1:
        return None  # several axes of channels, as where layers mix tokens
    with_others = [place for place, axis in enumerate(rest) if axis.has_others]
    if with_others and (with_others != places or len(places) > 1):
        return None
    if len(places) != 1:
        return LayerLayout(tuple(sorted(places)))
    axis = rest[places[0]]
    return LayerLayout((places[0],), _grid(axis), axis.leading, axis.trailing)


def _grid(axis: Axis) -> tuple[int, int] | None:
    """Return the rows and columns of an axis that has them row by row."""
    if not axis.factors:
        return 1, 1
    if tuple(meaning for meaning, _ in axis.factors) != (ROW, COLUMN):
        return None
    (_, rows), (_, columns) = axis.factors
    return rows, columns
