"""Algorithm 1 of Nautilus: fuse the pair that saves most, again and again."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.adaptation._fused import Fused, Memory
    from optimizer.adaptation._reuse import ReusePlans

__all__ = ["fuse"]


def fuse(
    singles: Sequence[tuple[Fused, int]],
    plans: ReusePlans,
    memory: Memory,
    memory_bytes: int,
    most_flops: float,
) -> list[tuple[Fused, int]]:
    """Fuse units greedily, pair by pair, while they fit.

    Parameters
    ----------
    singles : sequence of (Fused, int)
        A unit of one member, and how many there are of it. Units that are alike are looked at once.
    plans : ReusePlans
        With the materialised layers.
    memory : Memory
    memory_bytes : int
        What no fused unit may exceed; a single one is not looked at.
    most_flops : float
        What no fused unit may cost for one record over its epochs, so that other workers have something to do.

    Returns
    -------
    list of (Fused, int)
        Kinds of units that remain, and how many of each.

    Notes
    -----
    A pair that saves nothing is fused too: it saves a pass over the records and a step's overhead. Of pairs that save
    as much, the latest made goes first, which fills a unit before it begins the next. Halves that double would stop at
    a power of two members.
    """
    kinds: list[Fused] = []
    left: list[int] = []
    costs: list[int] = []
    number_of: dict[Fused, int] = {}
    heap: list[tuple[int, int, int]] = []

    def add(unit: Fused, count: int) -> None:
        if unit in number_of:
            left[number_of[unit]] += count
            # Its pairs left the heap when it had run out.
            pair(number_of[unit])
            return
        number_of[unit] = len(kinds)
        kinds.append(unit)
        left.append(count)
        costs.append(unit.flops(plans))
        pair(number_of[unit])

    def pair(new: int) -> None:
        unit = kinds[new]
        for old, other in enumerate(kinds):
            enough = left[old] >= (2 if old == new else 1)
            if not enough or other.batch_size != unit.batch_size:
                continue
            both = unit.join(other)
            cost = both.flops(plans)
            if cost <= most_flops and both.memory_bytes(plans, memory) <= memory_bytes:
                heapq.heappush(heap, (cost - costs[old] - costs[new], -max(old, new), -min(old, new)))

    for unit, count in singles:
        add(unit, count)
    while heap:
        _, later, earlier = heap[0]
        one, other = -later, -earlier
        if not _available(left, one, other):
            heapq.heappop(heap)
            continue
        left[one] -= 1
        left[other] -= 1
        add(kinds[one].join(kinds[other]), 1)
    return [(unit, count) for unit, count in zip(kinds, left, strict=True) if count]


def _available(left: Sequence[int], one: int, other: int) -> bool:
    return left[one] > 0 and left[other] > (1 if one == other else 0)
