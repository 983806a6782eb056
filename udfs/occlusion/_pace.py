"""Pace of a heat map: remaining seconds from the FLOPs of its places and the time of computed ones (Krypton, 7.1.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from udfs.occlusion._place_order import coarse_to_fine

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from optimizer.occlusion import UpdatePatches
    from udfs.occlusion._occlusion import Occlusion

__all__ = ["Pace", "place_flops"]

# Share of a batch that a bucket of rows and one of columns fill on average, and the most buckets along an axis.
_FULL = 0.6
_BUCKETS = 12

# Most batches that are computed together.
_TOGETHER = 4


def place_flops(patches: UpdatePatches) -> NDArray[np.float64]:
    """Count the FLOPs of each place of a heat map, including those of layers that are computed in full.

    Returns
    -------
    array of float64, of the heat map's shape
        1 for each place of a network that counts no FLOPs.
    """
    shape = patches.grid.shape
    flops = np.full(shape, float(patches.whole_flops))
    for name, spans in patches.spans.items():
        layer = np.full((1,) * len(shape), float(patches.graph[name].flops))
        for axis, span in enumerate(spans):
            share = span.lengths / patches.extent(name, axis)
            layer = layer * share.reshape([-1 if at == axis else 1 for at in range(len(shape))])
        flops += layer
    return flops if flops.any() else np.ones(shape)


class Pace:
    """Estimate of the remaining seconds of a heat map, corrected by each batch of places that is computed.

    A place counts by its FLOPs, and by what batches of padded update patches waste: more where a level of the heat map
    has few places. The seconds for each FLOP are those of the last half of the time, without the first batch, so that
    the estimate follows the load of the machine.

    Parameters
    ----------
    places : int
        Number of places to compute, over both stages of drill-down.
    in_full : bool
        Whether the whole network runs for each place although the mode is not naive. Default false.

    Attributes
    ----------
    is_in_full : bool
        True if the whole network runs for each place, so that the time of a run says the time of a place.

    Examples
    --------
    >>> from optimizer.graph import Layer, LayerGraph, Window
    >>> from optimizer.occlusion import OcclusionGrid, update_patches
    >>> from udfs.occlusion import Occlusion
    >>> image = Layer("image", "input", (), (3, 8, 8))
    >>> conv = Layer("conv", "Conv2d", ("image",), (4, 8, 8), flops=64, window=Window((1, 1), (1, 1), (0, 0), (1, 1)))
    >>> occlusion = Occlusion(OcclusionGrid((8, 8), (2, 2), (2, 2)), (0.0, 0.0, 0.0))
    >>> pace = Pace(update_patches(LayerGraph([image, conv], ["conv"]), occlusion.grid), occlusion, 16)
    >>> quarter = np.zeros((4, 4), np.bool_)
    >>> quarter[:2, :2] = True
    >>> pace.add(quarter, 2.0)
    >>> pace.seconds_left
    6.0
    """

    def __init__(self, patches: UpdatePatches, occlusion: Occlusion, places: int, *, in_full: bool = False) -> None:
        shape = patches.grid.shape
        self._levels = list(coarse_to_fine(np.ones(shape, np.bool_)))
        self._batch_size = occlusion.batch_size
        self._work = np.ones(shape)
        self.is_in_full = occlusion.mode == "naive" or in_full
        if not self.is_in_full:
            self._work = _work(patches, self._levels, occlusion.batch_size)
        self._remaining = np.ones(shape, np.bool_)
        self._places = places
        self._assumed: float | None = None
        self._done = [(0.0, 0.0)]  # seconds and work, cumulated

    @property
    def done(self) -> int:
        """Number of places that were computed."""
        return int(self._remaining.size - self._remaining.sum())

    @property
    def batches(self) -> int:
        """Number of batches that were recorded."""
        return len(self._done) - 1

    @property
    def work(self) -> float:
        """Work of all places, in runs of the whole network."""
        return self._places * float(self._work.mean())

    @property
    def places(self) -> int:
        """Number of places to compute."""
        return max(self._places, self.done)

    def assume(self, seconds: float) -> None:
        """Assume the seconds of a run of the whole network, until places are computed."""
        self._assumed = seconds

    def add(self, places: NDArray[np.bool_], seconds: float) -> None:
        """Record computed places, earlier ones among them, and the seconds since the last call."""
        computed = places & self._remaining
        if not computed.any():
            return
        self._remaining &= ~computed
        last_seconds, last_work = self._done[-1]
        self._done.append((last_seconds + seconds, last_work + float(self._work[computed].sum())))

    @property
    def run_seconds(self) -> float | None:
        """Seconds of a run of the whole network; ``None`` before the first place."""
        seconds, work = self._done[-1]
        if work == 0:
            return self._assumed
        since = max((entry for entry in self._done[:-1] if entry[0] <= seconds / 2), key=lambda entry: entry[0])
        if self.batches > 1:
            since = max(since, self._done[1])  # the first batch is slow where libraries start with it
        return (seconds - since[0]) / (work - since[1])

    @property
    def next_seconds(self) -> float:
        """Seconds until the next update: those of (part of) the next level of places; 0 if the pace is unknown."""
        left = [level & self._remaining for level in self._levels if (level & self._remaining).any()]
        if not left:
            return 0.0
        most = _TOGETHER * self._batch_size
        return (self.run_seconds or 0.0) * float(self._work[left[0]].mean()) * min(int(left[0].sum()), most)

    @property
    def seconds_left(self) -> float | None:
        """Seconds that the remaining places will take; ``None`` before any pace is known."""
        pace, count = self.run_seconds, self.places - self.done
        if pace is None or count == 0:
            return None if pace is None else 0.0
        return round(pace * count * float(self._work[self._remaining].mean()), 6)


def _work(patches: UpdatePatches, levels: Iterable[NDArray[np.bool_]], batch_size: int) -> NDArray[np.float64]:
    """Compute the work of each place in runs of the network, with the waste of its level's padded batches."""
    naive = float(patches.full_flops + patches.whole_flops)
    work = place_flops(patches)
    if naive:
        work /= naive
    mean = patches.mean_flops + patches.whole_flops
    waste = (patches.uniform_flops + patches.whole_flops) / mean - 1 if mean else 0.0
    for level in levels:
        # As many buckets along each axis as leave batches half full: each wastes its share of what one would.
        buckets = min(_BUCKETS, max(1.0, (level.sum() / (_FULL * batch_size)) ** (1 / work.ndim)))
        work[level] *= 1 + waste / buckets
    return work
