"""Greedy fusion of units, Algorithm 1 of Nautilus."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.adaptation._fused_units import Fused
    from optimizer.adaptation._reuse import ReusePlans

__all__ = ["fuse"]


def fuse(
    singles: Sequence[tuple[Fused, int]],
    plans: ReusePlans,
    workspace_bytes: int,
    memory_bytes: int,
    most_flops: float,
) -> list[tuple[Fused, int]]:
    """Fuse the pair of units that saves most, repeatedly, while the result fits into memory.

    ``singles`` are units of one member with their numbers; ``memory_bytes`` limits fused units only. ``most_flops``
    limits a fused unit's FLOPs for one record, so that units remain for the other workers.

    Notes
    -----
    A pair that saves no FLOPs is fused too, since it saves a pass over the records and the overhead of a step. Among
    equal pairs the latest one comes first, which fills a unit before the next one begins; units that double would stop
    at a power of two members.
    """
    kinds: list[Fused] = []
    left: list[int] = []
    costs: list[int] = []
    number_of: dict[Fused, int] = {}
    heap: list[tuple[int, int, int]] = []

    def add(unit: Fused, count: int) -> None:
        if unit in number_of:
            left[number_of[unit]] += count
            # Its pairs were removed from the heap when its number reached 0.
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
            if cost <= most_flops and both.memory_bytes(plans, workspace_bytes) <= memory_bytes:
                heapq.heappush(heap, (cost - costs[old] - costs[new], -max(old, new), -min(old, new)))

    for unit, count in singles:
        add(unit, count)
    while heap:
        _, later, earlier = heap[0]
        first, second = -later, -earlier
        if not _available(left, first, second):
            heapq.heappop(heap)
            continue
        left[first] -= 1
        left[second] -= 1
        add(kinds[first].join(kinds[second]), 1)
    return [(unit, count) for unit, count in zip(kinds, left, strict=True) if count]


def _available(left: Sequence[int], first: int, second: int) -> bool:
    return left[first] > 0 and left[second] > (1 if first == second else 0)
