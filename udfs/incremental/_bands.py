"""Neighbouring positions of the patch that are computed as one batch, with update patches of one size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from optimizer.patches import Span, UpdatePatches

__all__ = ["Band", "bands"]


@dataclass(frozen=True, slots=True)
class Band:
    """Some rows (or columns) of the heat map.

    Attributes
    ----------
    places : array of int64
        Of the heat map.
    starts : mapping of str to array of int64
        By layer: where the update patch of each place begins.
    lengths : mapping of str to int
        By layer: how long it is, the same for all; some read and update a little more than they must (appendix B.3).
    """

    places: NDArray[np.int64]
    starts: Mapping[str, NDArray[np.int64]]
    lengths: Mapping[str, int]


def bands(patches: UpdatePatches, axis: int, count: int) -> list[Band]:
    """Cut an axis of the heat map into bands of about as many places each.

    Parameters
    ----------
    patches : UpdatePatches
    axis : int
    count : int
        The more, the less is computed in vain at the borders, and the smaller are the batches.
    """
    places = np.arange(patches.grid.shape[axis])
    spans = {name: axes[axis] for name, axes in patches.spans.items()}
    extents = {name: patches.extent(name, axis) for name in spans}
    return [_band(part, spans, extents) for part in np.array_split(places, min(count, len(places)))]


def _band(places: NDArray[np.int64], spans: Mapping[str, Span], extents: Mapping[str, int]) -> Band:
    starts, lengths = {}, {}
    for name, span in spans.items():
        length = max(1, int(span.lengths[places].max()))
        lengths[name] = length
        # All within the tensor (equation B.1).
        starts[name] = np.clip(span.start[places], 0, extents[name] - length)
    return Band(places, starts, lengths)
