"""Buckets of patch positions whose update patches have about equal sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from optimizer.occlusion import Span, UpdatePatches

__all__ = ["Bucket", "buckets"]


@dataclass(frozen=True, slots=True)
class Bucket:
    """Rows or columns of the heat map whose update patches are computed with one size."""

    places: NDArray[np.int64]  # indices of the rows or columns, ascending
    starts: Mapping[str, NDArray[np.int64]]  # start of each place's update patch, by layer
    # Length of all update patches, by layer; some update a little more than necessary (appendix B.3).
    lengths: Mapping[str, int]


def buckets(patches: UpdatePatches, axis: int, count: int) -> list[Bucket]:
    """Split the places along an axis into at most `count` buckets so that the least work is wasted.

    Places are sorted by cost, and that order is cut at the best points. Patches near the borders are shorter, those in
    between grow by a pixel with their place on a layer's lattice; the first and last places share a bucket.
    """
    lengths, weights = _lengths(patches, axis), _weights(patches, axis)
    order = np.argsort(weights @ lengths, kind="stable")
    spans = {name: axes[axis] for name, axes in patches.spans.items()}
    extents = {name: patches.extent(name, axis) for name in spans}
    cuts = _cuts(lengths[:, order], weights, min(count, len(order)))
    return [_bucket(np.sort(part), spans, extents) for part in np.split(order, cuts)]


def _lengths(patches: UpdatePatches, axis: int) -> NDArray[np.float64]:
    """Stack the update patches' lengths: shape (layers, places)."""
    return np.stack([axes[axis].lengths for axes in patches.spans.values()]).astype(np.float64)


def _weights(patches: UpdatePatches, axis: int) -> NDArray[np.float64]:
    """Compute the cost of an element along the axis, by layer, with the patches' mean length along the other axes."""
    weights = []
    for name, spans in patches.spans.items():
        cost = float(max(1, patches.graph[name].flops))
        for other, span in enumerate(spans):
            cost /= patches.extent(name, other)
            cost *= 1.0 if other == axis else float(span.lengths.mean())
        weights.append(cost)
    return np.array(weights)


def _cuts(lengths: NDArray[np.float64], weights: NDArray[np.float64], count: int) -> list[int]:
    """Cut the order into ``count`` parts, each as costly as its longest patches, by dynamic programming."""
    places = lengths.shape[1]
    costs = np.full((places, places + 1), np.inf)
    for first in range(places):
        longest = np.maximum.accumulate(lengths[:, first:], axis=1)
        costs[first, first + 1 :] = (weights @ longest) * np.arange(1, places - first + 1)
    best, origins = costs[0], []
    for _ in range(count - 1):
        total = best[:places, None] + costs
        origins.append(total.argmin(axis=0))
        best = total.min(axis=0)
    cuts, last = [], places
    for origin in reversed(origins):
        last = int(origin[last])
        cuts.append(last)
    return cuts[::-1]


def _bucket(places: NDArray[np.int64], spans: Mapping[str, Span], extents: Mapping[str, int]) -> Bucket:
    starts, lengths = {}, {}
    for name, span in spans.items():
        length = max(1, int(span.lengths[places].max()))
        lengths[name] = length
        # All patches lie within the tensor (equation B.1).
        starts[name] = np.clip(span.start[places], 0, extents[name] - length)
    return Bucket(places, starts, lengths)
