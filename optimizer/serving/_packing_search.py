"""Packing by best fit in several orders, then by repacking some backends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from optimizer.serving._packing_bins import Bins

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from optimizer.serving._duty_cycles import Demand

__all__ = ["search"]

# Sessions times repackings: affordable for 1,000 sessions, and hardly needed for few.
_WORK = 100_000
_MOST_ROUNDS = 300
_TAKEN_APART = 4


def search(
    demands: Sequence[Demand], counts: Sequence[float], weights: NDArray[np.float64], bound: int, seed: int
) -> tuple[list[tuple[int, list[int]]], list[int]]:
    """Pack sessions into few groups.

    Best fit as in Algorithm 3.1, but each group keeps all its duty cycles open until the end, whereas the algorithm
    fixes the shortest one of its members. ``demands`` are on each kind of backend, the fastest first, of which there
    are ``counts``. ``weights`` of shape (sessions,) are the least shares of a backend that the sessions need; the
    search ends with ``bound`` groups. Return kind and sessions of each group, and the sessions for which no backend was
    left.
    """
    rng = np.random.default_rng(seed)
    sessions = len(weights)
    tightest = np.min([Bins(demands, counts).shares.min(2).min(0)], 0)
    bins, left, best = None, list(range(sessions)), None
    for key in (weights, tightest, tightest * weights, -tightest + weights):
        packed, over = _packed(Bins(demands, counts), np.argsort(-key, kind="stable").tolist())
        score = _score(packed, over, weights)
        if best is None or score > best:
            bins, left, best = packed, over, score
        if sessions > _WORK // 100:
            break
    assert bins is not None  # there are keys
    assert best is not None
    for _ in range(min(_MOST_ROUNDS, _WORK // max(1, sessions)) if sessions else 0):
        if len(bins) <= bound and not left:
            break
        apart = _chosen(bins, weights, rng)
        freed = [item for group in apart for item in bins.items[group]] + left
        noise = rng.uniform(0.5, 1.5, len(freed))
        order = [freed[place] for place in np.argsort(-weights[freed] * noise).tolist()]
        packed, over = _packed(bins.without(apart), order)
        score = _score(packed, over, weights)
        if score >= best:
            bins, left, best = packed, over, score
    return list(zip(bins.kinds, bins.items, strict=True)), left


def _packed(bins: Bins, order: Iterable[int]) -> tuple[Bins, list[int]]:
    over = [item for item in order if not bins.place(item)]
    return bins, over


def _chosen(bins: Bins, weights: NDArray[np.float64], rng: np.random.Generator) -> set[int]:
    """Choose groups to repack, preferably emptier ones."""
    if not len(bins):
        return set()
    filled = np.array([weights[items].sum() for items in bins.items])
    count = int(rng.integers(2, _TAKEN_APART + 1))
    emptier = 1 / (filled + 0.05)
    count = min(count, len(bins))
    return set(rng.choice(len(bins), count, replace=False, p=emptier / emptier.sum()).tolist())


def _score(bins: Bins, over: Sequence[int], weights: NDArray[np.float64]) -> tuple[float, ...]:
    """Rank a packing: served sessions first, then fewer groups, then uneven ones."""
    filled = sum(float(weights[items].sum()) ** 2 for items in bins.items)
    return -float(weights[list(over)].sum()), -len(bins), round(filled, 9)
